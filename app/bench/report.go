package bench

// The figures. A report is the content of the JSON file. The table and the lines for benchstat are
// made from it.

import "time"

// Format is the version of the JSON. It changes when the meaning of a field does.
const Format = 2

// Report is one run of the benchmark.
type Report struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // of Headroom
	Date    time.Time `json:"date"`
	Machine Machine   `json:"machine"`
	Parts   []Part    `json:"parts"`
}

// Part is the figures of a group, with the median ceilings while they were measured.
type Part struct {
	Group    string   `json:"group"`
	Device   string   `json:"device"` // as "CPU, AVX-512 VNNI, 2 threads"
	Ceilings Ceilings `json:"ceilings"`
	Rows     []Row    `json:"rows"`
}

// Row is one figure.
type Row struct {
	ID      string    `json:"id"` // stays the same from version to version
	What    string    `json:"what"`
	Model   string    `json:"model"`
	Unit    string    `json:"unit"`
	Value   float64   `json:"value"` // the median
	Samples []float64 `json:"samples"`
	// Ceilings are the best possible value of each sample, in the same unit. Ceiling is their
	// median, or one for all samples; 0 is unknown.
	Ceilings []float64 `json:"ceilings,omitempty"`
	Ceiling  float64   `json:"ceiling,omitempty"`
	Bound    string    `json:"bound,omitempty"` // the resource that sets the ceiling
	// Share is the median of the samples' shares, the fraction of its ceiling that each reached.
	Share  float64 `json:"share,omitempty"`
	Target *Target `json:"target,omitempty"`
	Met    *bool   `json:"met,omitempty"` // nil without a target
}

// Units. Larger values are better for the first three, smaller ones for the others.
const (
	unitSpeed   = "tok/s"
	unitRate    = "Gop/s"
	unitRatio   = "ratio" // of two speeds
	unitSeconds = "s"
	unitPercent = "%"
	unitTimes   = "x" // of a size
)

// Values of Row.Bound.
const (
	boundMemory     = "memory"
	boundArithmetic = "arithmetic"
	boundCheckpoint = "the checkpoint's size"
	boundStreams    = "the number of streams"
)

// Target is the required value of a figure. One field is set.
type Target struct {
	Share   float64 `json:"share,omitempty"` // minimum share of the ceiling
	AtLeast float64 `json:"atLeast,omitempty"`
	AtMost  float64 `json:"atMost,omitempty"`
}

// targets maps row IDs to targets. Those in tokens/s are for Headroom's development machines: two
// cores with 938 Gop/s of int8 products. On other machines, look at the shares instead.
var targets = map[string]Target{
	"decode-0":            {Share: 0.90},
	"decode-4096":         {Share: 0.75},
	"decode-16384":        {Share: 0.75},
	"prefill-128":         {AtLeast: 500},
	"prefill-512":         {AtLeast: 500},
	"prefill-2048":        {AtLeast: 400},
	"prefill-4096":        {AtLeast: 300},
	"prefill-16384":       {AtLeast: 100},
	"prefill-matrices":    {Share: 0.50},
	"append-4096":         {AtMost: 0.15},
	"streams-4-ratio":     {AtLeast: 2.8},
	"threads-ratio":       {AtLeast: 1.8},
	"moe-decode-0":        {Share: 0.80},
	"moe-recurrent-share": {AtMost: 10},
	"load":                {AtMost: 0.5},
	// The weights are in memory once. The rest is cache, activations and the program.
	"resident": {AtMost: 1.5},
}

// lessIsBetter reports whether a smaller value of the unit is better.
func lessIsBetter(unit string) bool {
	return unit == unitSeconds || unit == unitPercent || unit == unitTimes
}

// judge fills in Ceiling, Share, Target and Met.
func (r *Row) judge() {
	share := func(value, ceiling float64) float64 {
		if lessIsBetter(r.Unit) {
			return ceiling / value
		}
		return value / ceiling
	}
	switch {
	case len(r.Ceilings) > 0 && len(r.Ceilings) == len(r.Samples):
		shares := make([]float64, len(r.Samples))
		for i, v := range r.Samples {
			shares[i] = share(v, r.Ceilings[i])
		}
		r.Ceiling, r.Share = median(r.Ceilings), median(shares)
	case r.Ceiling > 0 && r.Value > 0:
		r.Share = share(r.Value, r.Ceiling)
	}
	t, ok := targets[r.ID]
	if !ok || t.Share > 0 && r.Ceiling == 0 {
		return
	}
	met := t.Share > 0 && r.Share >= t.Share || t.AtLeast > 0 && r.Value >= t.AtLeast ||
		t.AtMost > 0 && r.Value <= t.AtMost
	r.Target, r.Met = &t, &met
}

// ratioRow returns a row with the ratios of the speeds a to b, pair by pair. ceiling is the maximum
// ratio, 0 if unknown.
func ratioRow(id, what, model string, a, b []float64, ceiling float64) Row {
	row := Row{ID: id, What: what, Model: model, Unit: unitRatio, Samples: ratios(a, b),
		Ceiling: ceiling}
	if ceiling > 0 {
		row.Bound = boundStreams
	}
	row.Value = median(row.Samples)
	return row
}

// ratios divides a's elements by b's.
func ratios(a, b []float64) (list []float64) {
	for i := range min(len(a), len(b)) {
		list = append(list, a[i]/b[i])
	}
	return list
}

// Rows returns the rows of all parts.
func (r *Report) Rows() (rows []Row) {
	for _, p := range r.Parts {
		rows = append(rows, p.Rows...)
	}
	return rows
}
