package generate

import "headroom/engine/draft"

// ReadSpeculation reads the field speculation, which is Headroom's in every dialect: how tokens are
// decoded ahead. how may be nil. The error is a *ParamError.
func (p *Params) ReadSpeculation(how *string) error {
	if how == nil {
		return nil
	}
	if err := draft.CheckWay(*how); err != nil {
		return BadParam("speculation", "%v", err)
	}
	p.Speculate = *how
	return nil
}
