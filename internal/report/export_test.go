package report

// PageOf and CampaignPageOf give a page whose figures may be no numbers.
func PageOf(e *Evidence) []byte         { return e.page().html() }
func CampaignPageOf(r *Campaign) []byte { return r.page().html() }
