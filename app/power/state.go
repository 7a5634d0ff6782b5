package power

// Where the computer's power comes from and how hot it is, as its system says, and what Headroom
// does about it. What is done is little and can be told in a sentence each: a computer on battery,
// or one that is hot, still answers every request.

import "time"

// Source is where the power comes from.
type Source string

// The sources.
const (
	Unknown Source = ""
	Mains   Source = "mains"
	Battery Source = "battery"
)

// Heat is the thermal pressure, in Apple's words (NSProcessInfo.thermalState).
type Heat string

// The degrees. Unmeasured is of a system that does not tell.
const (
	Unmeasured Heat = ""
	Nominal    Heat = "nominal"
	Fair       Heat = "fair"    // fans may be heard
	Serious    Heat = "serious" // the system slows down what it can
	Critical   Heat = "critical"
)

// State is both.
type State struct {
	Source Source `json:"source"`
	Heat   Heat   `json:"heat"`
}

// Policy is what the settings allow.
type Policy struct {
	SaveOnBattery bool
	EaseWhenHot   bool
}

// Measures are what is done. The zero value is nothing.
type Measures struct {
	// a model that nobody uses is unloaded after so long at most; 0: nothing is done
	IdleUnload   time.Duration
	ReduceWrites bool    // only conversations that went on are written to disk
	DutyCycle    float64 // of the time that the engine works; 0: nothing is done
}

const (
	batteryRest   = 10 * time.Minute
	seriousShare  = 0.75
	criticalShare = 0.5
)

// Decide chooses.
func Decide(s State, p Policy) (m Measures) {
	if p.SaveOnBattery && s.Source == Battery {
		m.IdleUnload, m.ReduceWrites = batteryRest, true
	}
	switch {
	case !p.EaseWhenHot:
	case s.Heat == Serious:
		m.DutyCycle = seriousShare
	case s.Heat == Critical:
		m.DutyCycle = criticalShare
	}
	return m
}

// Measure is one of them for people: a few words, and a sentence.
type Measure struct {
	Kind  string `json:"kind"`  // "rest", "disk" or "ease"
	Title string `json:"title"` // of a menu's row
	Text  string `json:"text"`
}

// Words are the measures, the one that is felt first.
func (m Measures) Words() []Measure {
	list := []Measure{}
	if m.DutyCycle > 0 {
		how := "a third as long as it works"
		if m.DutyCycle == criticalShare {
			how = "as long as it works"
		}
		list = append(list, Measure{"ease", "Hot: answers come slower",
			"The computer is hot, so the engine rests " + how +
				", step by step. Answers come slower until it has cooled down."})
	}
	if m.IdleUnload > 0 {
		list = append(list, Measure{"rest", "On battery: rests sooner",
			"On battery, a model that nobody uses for 10 minutes is unloaded. The next request " +
				"loads it again."})
	}
	if m.ReduceWrites {
		list = append(list, Measure{"disk", "On battery: writes less",
			"On battery, only conversations that have gone on before are written to disk. Others " +
				"stay in memory."})
	}
	return list
}
