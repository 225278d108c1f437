package report

// PageOf and CampaignPageOf give a page whose figures may be no numbers.
func PageOf(e *Evidence) []byte         { return must(e.page().html()) }
func CampaignPageOf(r *Campaign) []byte { return must(r.page().html()) }

func must(page []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return page
}

// NewWinner is a winner without a launch.
var NewWinner = newWinner
