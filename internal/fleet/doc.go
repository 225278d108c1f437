// Package fleet spreads the evaluations of campaigns over many hosts.
package fleet
