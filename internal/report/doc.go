// Package report writes what a store holds of one candidate, or of one
// campaign, as a folder that a person can read and a program can check:
// evidence.json or report.json (versioned, see [EvidenceFormat] and
// [CampaignFormat]), README.md, index.html, plots as SVG, the rebuilt source,
// and SHA256SUMS over all of it.
//
// Building a report reads no file and no clock: [NewEvidence] and
// [NewCampaign] turn stored data into values, their Files methods turn these
// into bytes, and [Write] puts the bytes in place, all of them or none.
//
// Nothing is invented on the way: a check that did not run is shown as not
// run, a figure that was not measured as not measured, and what is not finite
// is left out of plots and said beside them.
package report
