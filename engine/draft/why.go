package draft

// Why an answer had no drafts. Each pass without drafts has a cause, and that of an answer is the
// most frequent one of its passes. The table of causes has their sentences, which all that show
// them share.

import "fmt"

// Cause is why a pass or an answer had no drafts. The zero value means that it had some, or needed
// none.
type Cause uint8

// The causes.
const (
	NoCause     Cause = iota
	Off               // nothing is decoded ahead
	Unsupported       // the model cannot verify drafts as it is loaded
	AskedOff          // the request wants none
	AskedOther        // the request wants a way to draft that this engine does not have
	Short             // there were no tokens to draft
	NoMatch           // only lookups may draft, and they found nothing
	NoBlock           // as NoMatch, since the model's block that drafts cannot be used
	Measuring         // passes without drafts had to be measured
	Costly            // drafts were expected to cost more time than they save
	Saving            // they were expected to save less than a computer expects that saves energy
	Reading           // the draft model had not read the conversation yet
	DraftMemory       // the draft model had no memory left
	Beyond            // the draft model cannot read the conversation
	Full              // there was no room for them in the passes or in the cache
	Forced            // the form of the answer left no choice
	causeCount
)

// causes has the name of each cause, for logs and metrics, and its sentence. Those of Costly and
// Saving have figures; see Why.Sentence.
var causes = [causeCount]struct{ name, sentence string }{
	Off: {"off", "Decoding ahead is off."},
	Unsupported: {"unsupported", "The model cannot verify drafts with its options, or there was " +
		"too little memory for them when it was loaded."},
	AskedOff: {"asked_off", "The request asked for no drafts."},
	AskedOther: {"asked_other", "The way to draft that was asked for is one that the loaded " +
		"model does not have."},
	Short: {"short", "The answer was too short for drafts."},
	NoMatch: {"no_match", "Drafts were only looked up, and the end of the text occurred nowhere " +
		"before."},
	NoBlock: {"no_block", "The model's block that drafts cannot be used, for the reason in the " +
		"list of models. So drafts were only looked up, and the end of the text occurred nowhere " +
		"before."},
	Measuring: {"measuring", "Passes without drafts had to be measured first."},
	Costly:    {"costly", "Drafts would have cost more time than they save."},
	Saving: {"saving", "The computer saves energy, because it runs on battery or is hot. Drafts " +
		"would have saved too little time for that."},
	Reading: {"reading", "The draft model had not read the conversation yet, or reading it would " +
		"have held up the answer."},
	DraftMemory: {"draft_memory", "Other requests used all memory of the draft model."},
	Beyond: {"beyond", "The conversation is longer than the draft model's context, or has a " +
		"token that the draft model lacks."},
	Full: {"full", "Other requests filled the passes or the cache, which left no room for " +
		"drafts."},
	Forced: {"forced", "The form of the answer left no choice of tokens."},
}

// Causes returns the names of all causes but NoCause.
func Causes() []string {
	var names []string
	for _, c := range causes[1:] {
		names = append(names, c.name)
	}
	return names
}

// String returns the name of the cause: "" for NoCause.
func (c Cause) String() string {
	if c >= causeCount {
		return fmt.Sprintf("cause %d", uint8(c))
	}
	return causes[c].name
}

// Why is a Cause, with the figures that it rests on if it is Costly or Saving.
type Why struct {
	Cause Cause
	Right float64 // probability that the first draft of a pass is right
	// Time is how many times as long as without drafts a pass with one draft takes, including the
	// time of drafting it.
	Time float64
	Rows int // tokens of a pass without drafts: how many answers decode at once
	// Assumed means that Time was not measured, or long ago.
	Assumed bool
}

// Sentence returns why there were no drafts; "" for NoCause.
func (w Why) Sentence() string {
	if w.Cause >= causeCount {
		return ""
	}
	text := causes[w.Cause].sentence
	if w.Time == 0 {
		return text
	}
	pass := "A pass"
	if w.Rows > 1 {
		pass = fmt.Sprintf("A pass of %d answers", w.Rows)
	}
	takes := "takes"
	if w.Assumed {
		takes = "is assumed to take"
	}
	return fmt.Sprintf("%s %s with one draft %s %.2f times as long as one without, and %.0f %% of "+
		"such drafts are expected to be right.", text, pass, takes, w.Time, 100*w.Right)
}

// Whys counts why the passes of an answer had no drafts. The zero value has counted none.
type Whys struct {
	passes [causeCount]int
	latest [causeCount]Why
}

// Add counts a pass without drafts.
func (s *Whys) Add(w Why) {
	s.passes[w.Cause]++
	s.latest[w.Cause] = w
}

// Most returns the most frequent cause, with its latest figures. It is Short only if there is no
// other, since the last pass of every long answer is.
func (s *Whys) Most() Why {
	most := NoCause
	for c := NoCause + 1; c < causeCount; c++ {
		if c != Short && s.passes[c] > s.passes[most] {
			most = c
		}
	}
	if most == NoCause {
		return Why{Cause: Short}
	}
	return s.latest[most]
}

// costly returns the Why of a draft that is right with this probability, takes step seconds to be
// drafted, and is not worth its time.
func (r *Round) costly(right, step float64) Why {
	return Why{Cause: Costly, Right: right, Rows: r.Rows,
		Time:    r.Passes.ratio(r.Rows, 1) + step/r.plain(),
		Assumed: !r.Passes.knows(r.Rows+1) || step > 0 && !r.Drafter.knows(MaxRows)}
}

// whyNot is like costly, for a drafter that has drafted nothing. worth reports whether it would in
// another round.
func (r *Round) whyNot(right, step float64, worth func(*Round) bool) Why {
	if r.Passes.lacksPlain(r.Rows) {
		return Why{Cause: Measuring}
	}
	w := r.costly(right, step)
	if r.gain() > DefaultGain {
		eager := *r
		eager.Gain = 0
		if worth(&eager) {
			w.Cause = Saving
		}
	}
	return w
}

// WhyNoLookup returns why LookupDepth is 0.
func (r *Round) WhyNoLookup(match, most int, h *Hits) Why {
	switch {
	case most < 1:
		return Why{Cause: Short}
	case match == 0:
		return Why{Cause: NoMatch}
	}
	return r.whyNot(h.Rate(match), 0, func(r *Round) bool {
		depth, _, _ := r.LookupDepth(match, most, h)
		return depth > 0
	})
}

// WhyNoChain returns why ChainDepth is 0. The arguments are those of ChainDepth.
func (r *Round) WhyNoChain(c *Chain, most, rows int, reading float64) Why {
	if most < 1 {
		return Why{Cause: Short}
	}
	if depth, _ := r.ChainDepth(c, most, rows, 0); depth > 0 {
		return Why{Cause: Reading}
	}
	return r.whyNot(c.Next(), r.lastStep(rows), func(r *Round) bool {
		depth, _ := r.ChainDepth(c, most, rows, reading)
		return depth > 0
	})
}

// WhyNoBlock returns why BlockDepth is 0. The arguments are those of BlockDepth.
func (r *Round) WhyNoBlock(c *Chain, most, rows int) Why {
	if most < 1 {
		return Why{Cause: Short}
	}
	return r.whyNot(c.Next(), r.Step(rows+1+Room(1, most)), func(r *Round) bool {
		depth, _ := r.BlockDepth(c, most, rows)
		return depth > 0
	})
}

// WhyNotTaken returns why a pass verifies no draft after the first one has been drafted. chance is
// the probability that it is right. A step of the drafter takes step seconds.
func (r *Round) WhyNotTaken(chance, step float64) Why { return r.costly(chance, step) }
