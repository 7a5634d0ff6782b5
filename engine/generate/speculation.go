package generate

import "headroom/engine/draft"

// ReadSpeculation reads the field speculation, which is Headroom's in every dialect: how tokens are
// decoded ahead. how may be nil. The error is a *ParamError.
func (p *Params) ReadSpeculation(how *string) error {
	if how == nil {
		return nil
	}
	if draft.CheckWay(*how) != nil || *how == "" {
		return BadParam("speculation", `expected %q, %q, %q or %q, got %.80q`, draft.WayAuto,
			draft.WayOff, draft.WayLookup, draft.WayMTP, *how)
	}
	p.Speculate = *how
	return nil
}
