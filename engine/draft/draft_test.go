package draft

import "testing"

func TestCheckWay(t *testing.T) {
	for _, way := range []string{WayAuto, WayOff, WayLookup, WayMTP, WayDraft, WayDFlash} {
		if err := CheckWay(way); err != nil {
			t.Error(err)
		}
	}
	for way, want := range map[string]string{
		"":     `expected "auto", "off", "lookup", "mtp", "draft" or "dflash", got ""`,
		"Auto": `expected "auto", "off", "lookup", "mtp", "draft" or "dflash", got "Auto"`,
	} {
		if err := CheckWay(way); err == nil || err.Error() != want {
			t.Errorf("%q: %v, expected %s", way, err, want)
		}
	}
}
