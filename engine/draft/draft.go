// Package draft proposes tokens that a model will probably generate next. One pass then computes
// several of them, and those that the model would have chosen are kept. A proposal never changes an
// answer, only the time that it takes.
//
//	lookup.go   what followed the same tokens earlier in the same sequence
//	others.go   what followed the same tokens in other conversations
//	chain.go    what a block of the model (models.Drafter) or a draft model drafts, token by token
//	block.go    what a drafter of blocks drafts in one step
//	list.go     of which tokens drafts are chosen, if not from the whole vocabulary
//	depth.go    how many tokens are worth a proposal, from measured times and from earlier hits
//	gain.go     what drafts gain, compared with decoding without them
//	why.go      why an answer had no drafts
//	counts.go   how many drafts there were in each way, and how many the model chose
//	share.go    how often a guess was right, where old guesses count less than new ones
//
// Nothing here knows a device or a clock.
package draft

import "fmt"

// The ways to decode ahead, as users name them.
const (
	WayAuto   = "auto"   // by whichever drafter is measured to be the fastest, or not at all
	WayOff    = "off"    // not at all
	WayLookup = "lookup" // only by what followed the same tokens
	WayMTP    = "mtp"    // only by the model's own block
	WayDraft  = "draft"  // only by a draft model
	WayDFlash = "dflash" // only by a DFlash drafter
)

// CheckWay returns an error unless way is one of these. Callers that take "" for a way that was not
// given do not check it.
func CheckWay(way string) error {
	switch way {
	case WayAuto, WayOff, WayLookup, WayMTP, WayDraft, WayDFlash:
		return nil
	}
	return fmt.Errorf("expected %q, %q, %q, %q, %q or %q, got %.80q", WayAuto, WayOff, WayLookup,
		WayMTP, WayDraft, WayDFlash, way)
}

// MaxTokens is the maximum number of tokens in a proposal.
const MaxTokens = 8
