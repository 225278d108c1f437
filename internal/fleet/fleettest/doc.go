// Package fleettest has what every transport of a fleet passes, and links that fail on
// purpose. Only tests import it.
package fleettest
