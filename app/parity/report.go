package parity

import (
	"fmt"
	"strings"

	"headroom/engine"
)

// Report is the result of a check. Its JSON is the output of `headroom parity --json`.
type Report struct {
	Model       string `json:"model"`
	Device      string `json:"device"`
	KVFormat    string `json:"kv_format"`
	StateFormat string `json:"state_format"`
	Prompts     int    `json:"prompts"`
	MaxTokens   int    `json:"max_tokens"`
	Ways        []Row  `json:"ways"` // the first is the plain one
	Equal       bool   `json:"equal"`
	Verdict     string `json:"verdict"` // one sentence
}

// Row is one way to answer, compared with the plain one.
type Row struct {
	Way       string `json:"way"`
	MustEqual bool   `json:"must_equal"`
	NotTried  string `json:"not_tried,omitempty"` // why; the fields below are then 0
	Note      string `json:"note,omitempty"`

	Answers      int `json:"answers"`
	EqualAnswers int `json:"equal_answers"`
	Tokens       int `json:"tokens"`       // of the plain answers
	EqualTokens  int `json:"equal_tokens"` // of these, before the first other token
	// LargestDifference is that of the log-probabilities of equal tokens.
	LargestDifference float64   `json:"largest_logprob_difference"`
	Partings          []Parting `json:"partings,omitempty"` // one for each answer that differs

	ReadTokensPerSecond   float64 `json:"read_tokens_per_second"`
	DecodeTokensPerSecond float64 `json:"decode_tokens_per_second"`
}

// Parting is where an answer first differs from the plain one.
type Parting struct {
	Prompt int  `json:"prompt"` // counted from 1
	Token  int  `json:"token"`  // its number in the answer, counted from 1
	Plain  Said `json:"plain"`
	Other  Said `json:"other"`
}

// Said is a token of an answer.
type Said struct {
	ID      int32   `json:"id"` // -1: the answer has ended
	Text    string  `json:"text"`
	Logprob float32 `json:"logprob"`
}

func (c *check) describe(e *engine.Engine) {
	i, r := e.Info(), c.report
	r.Device, r.KVFormat, r.StateFormat = i.Device, i.KVFormat, i.StateFormat
	c.text = func(token int32) string { return e.Tokenizer().Decode([]int32{token}, false) }
}

func (c *check) add(row Row) {
	c.report.Ways = append(c.report.Ways, row)
	if c.Row != nil {
		c.Row(row)
	}
}

func (c *check) absent(way string, mustEqual bool, why string) {
	c.add(Row{Way: way, MustEqual: mustEqual, NotTried: why})
}

// row compares answers with the plain ones.
func (c *check) row(way string, mustEqual bool, answers []answer, s speeds) Row {
	r := Row{Way: way, MustEqual: mustEqual, Answers: len(answers),
		ReadTokensPerSecond: s.read, DecodeTokensPerSecond: s.decode}
	for i, got := range answers {
		want := c.plain[i]
		common, largest, apart := compare(want, got, mustEqual)
		r.Tokens += len(want.tokens)
		r.EqualTokens += common
		r.LargestDifference = max(r.LargestDifference, largest)
		if apart == nil {
			r.EqualAnswers++
			continue
		}
		r.Partings = append(r.Partings, Parting{Prompt: i + 1, Token: apart.at + 1,
			Plain: c.said(want, apart.at), Other: c.said(got, apart.at)})
	}
	return r
}

func (c *check) said(a answer, at int) Said {
	if at >= len(a.tokens) {
		return Said{ID: -1}
	}
	return Said{a.tokens[at], c.text(a.tokens[at]), a.logprobs[at]}
}

// conclude sets Equal and Verdict.
func (r *Report) conclude() {
	var differ, allowed []string
	tried, skipped := 0, 0
	for _, w := range r.Ways {
		switch {
		case w.MustEqual && w.NotTried != "":
			skipped++
		case w.MustEqual && len(w.Partings) > 0:
			differ = append(differ, fmt.Sprintf("%s in %d of %s", w.Way, len(w.Partings),
				plural(w.Answers, "answer")))
		case w.MustEqual:
			tried++
		case w.NotTried == "" && len(w.Partings) > 0:
			allowed = append(allowed, fmt.Sprintf("%s in %d of %s", w.Way, len(w.Partings),
				plural(w.Answers, "answer")))
		}
	}
	if r.Equal = len(differ) == 0; !r.Equal {
		r.Verdict = "Different from plain decoding, and must not be: " +
			strings.Join(differ, ", ") + "."
		return
	}
	r.Verdict = fmt.Sprintf("All %d ways that must equal plain decoding do", tried)
	if tried == 1 {
		r.Verdict = "1 way that must equal plain decoding does"
	}
	if skipped > 0 {
		r.Verdict += fmt.Sprintf(", %d more could not be tried", skipped)
	}
	if allowed != nil {
		r.Verdict += "; others may differ: " + strings.Join(allowed, ", ")
	}
	r.Verdict += "."
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// draftNote says how many drafts were right; "": there were none.
func draftNote(answers []answer) string {
	right, all := 0, 0
	for _, a := range answers {
		right, all = right+a.usage.AcceptedTokens, all+a.usage.DraftTokens
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d drafts were right", right, all)
}
