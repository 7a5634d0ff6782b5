package power

// The power source and thermal state of the computer, and the measures that Headroom takes. All
// requests are still answered on battery and in heat.

import (
	"time"

	"headroom/engine/draft"
)

// Source is a power source.
type Source string

// The sources.
const (
	Unknown Source = ""
	AC      Source = "ac"
	Battery Source = "battery"
)

// ThermalState is the thermal state, named as in Apple's NSProcessInfo.thermalState.
type ThermalState string

// The thermal states. Unmeasured means that the system does not report one.
const (
	Unmeasured ThermalState = ""
	Nominal    ThermalState = "nominal"
	Fair       ThermalState = "fair"    // the fans may be audible
	Serious    ThermalState = "serious" // the system throttles
	Critical   ThermalState = "critical"
)

// State is the power source and the thermal state.
type State struct {
	Source       Source       `json:"source"`
	ThermalState ThermalState `json:"thermalState"`
}

// Policy says which measures the user allows.
type Policy struct {
	SaveOnBattery   bool
	ThrottleWhenHot bool
}

// Measures says what Headroom does to save power or to cool down. The zero value means nothing.
type Measures struct {
	// IdleUnload is the longest time that an idle model stays loaded; 0: not limited.
	IdleUnload   time.Duration
	ReduceWrites bool    // only conversations that resumed a cached prefix are written to disk
	DutyCycle    float64 // the share of time in which the engine computes; 0: not limited
	// DraftGain is how many times as fast as plain decoding a pass that decodes ahead has to be; 0:
	// hardly faster.
	DraftGain float64
}

const (
	batteryIdleUnload = 10 * time.Minute
	seriousDutyCycle  = 0.75
	criticalDutyCycle = 0.5
)

// The measures of a power source and of a thermal state.
var (
	onSource = map[Source]Measures{
		Battery: {IdleUnload: batteryIdleUnload, ReduceWrites: true, DraftGain: draft.SavingGain},
	}
	whenHot = map[ThermalState]Measures{
		Serious:  {DutyCycle: seriousDutyCycle, DraftGain: draft.SavingGain},
		Critical: {DutyCycle: criticalDutyCycle, DraftGain: draft.SavingGain},
	}
)

// Decide returns those measures for a state that the policy allows.
func Decide(s State, p Policy) (m Measures) {
	if p.SaveOnBattery {
		m = onSource[s.Source]
	}
	if p.ThrottleWhenHot {
		hot := whenHot[s.ThermalState]
		m.DutyCycle, m.DraftGain = hot.DutyCycle, max(m.DraftGain, hot.DraftGain)
	}
	return m
}

// Measure describes one of the Measures for the user.
type Measure struct {
	Kind  string `json:"kind"`  // "idle_unload", "reduce_writes", "throttle" or "draft_less"
	Title string `json:"title"` // title of a menu item
	Text  string `json:"text"`  // a description of one or two sentences
}

// Describe returns descriptions of the measures, the most noticeable first.
func (m Measures) Describe() []Measure {
	list := []Measure{}
	if m.DutyCycle > 0 {
		how := "for a quarter of the time"
		if m.DutyCycle == criticalDutyCycle {
			how = "for half of the time"
		}
		list = append(list, Measure{"throttle", "Hot: slower answers",
			"The computer is hot, so the engine pauses " + how + ". Answers are slower until the " +
				"computer has cooled down."})
	}
	if m.IdleUnload > 0 {
		list = append(list, Measure{"idle_unload", "On battery: unloads sooner",
			"On battery, a model is unloaded after 10 idle minutes. The next request loads it " +
				"again."})
	}
	if m.ReduceWrites {
		list = append(list, Measure{"reduce_writes", "On battery: writes less",
			"On battery, only continued conversations are written to disk. Others stay in memory."})
	}
	if m.DraftGain > 0 {
		list = append(list, Measure{"draft_less", "Saving energy: fewer drafts",
			"On battery and in heat, tokens are computed ahead only where that is much faster, " +
				"so that it saves energy too. Answers are the same."})
	}
	return list
}
