package draft

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// text returns tokens that are partly copies of earlier ones: the share copied of the stretches
// begins at a random earlier place, and a token of a copy is another one with the probability
// edits.
func text(r *rand.Rand, n int, copied, edits float64) []int32 {
	var tokens []int32
	for len(tokens) < n {
		stretch := 10 + r.IntN(60)
		if len(tokens) < 200 || r.Float64() >= copied {
			for range stretch {
				// Frequent tokens and rare ones, as in language.
				tokens = append(tokens, int32(math.Exp(r.Float64()*9)))
			}
			continue
		}
		at := r.IntN(len(tokens) - stretch)
		for i := range stretch {
			t := tokens[at+i]
			if r.Float64() < edits {
				t = int32(math.Exp(r.Float64() * 9))
			}
			tokens = append(tokens, t)
		}
	}
	return tokens[:n]
}

// decode returns the time of decoding a text after its first prompt tokens, by passes whose rows
// cost slope of a pass each, and the time of plain decoding. The measured times are the real ones
// times noise.
func decode(r *rand.Rand, tokens []int32, prompt int, slope, noise float64, h *Hits,
	times *Times) (ahead, plain float64) {
	l := NewLookup(nil, len(tokens))
	l.Extend(tokens[:prompt], nil, nil)
	h = &Hits{Before: h}
	for n := prompt; n < len(tokens); {
		l.Extend(tokens[:n], h, nil)
		round := Round{Rows: 1, Passes: times}
		depth, _, _ := round.LookupDepth(l.Match(), len(tokens)-n-1, h)
		drafts := l.Propose(tokens[:n], depth)
		took := 1 + slope*float64(len(drafts))
		times.Observe(1+len(drafts), took*math.Exp(noise*r.NormFloat64()))
		ahead += took
		done := 1
		for i, d := range drafts {
			if tokens[n+i] != d {
				break
			}
			done++
		}
		n += done
		plain += float64(done)
	}
	return ahead, plain
}

// TestNeverSlower decodes texts of many kinds on simulated machines, with noisy clocks. Decoding
// ahead is never slower than plain decoding by more than two percent, and much faster where there
// is much to copy and rows are cheap.
func TestNeverSlower(t *testing.T) {
	for _, slope := range []float64{0.02, 0.1, 0.25, 0.5, 1} {
		for _, copied := range []float64{0, 0.2, 0.9} {
			for _, noise := range []float64{0, 0.1, 0.3} {
				r := rand.New(rand.NewPCG(uint64(slope*100), uint64(copied*100+noise*1000)))
				var h Hits
				var times Times
				var ahead, plain float64
				for range 40 { // answers of one conversation after another
					a, p := decode(r, text(r, 900, copied, 0.03), 500, slope, noise, &h, &times)
					ahead, plain = ahead+a, plain+p
				}
				name := fmt.Sprintf("rows of %g, %g copied, noise %g", slope, copied, noise)
				speed := plain / ahead
				t.Logf("%s: %.2f times as fast", name, speed)
				if speed < 0.98 {
					t.Errorf("%s: %.3f times as fast", name, speed)
				}
				if least := 1 + 1.5*(copied-0.5)*(1-2*slope); copied > 0.5 && speed < least {
					t.Errorf("%s: %.3f times as fast, expected at least %.2f", name, speed, least)
				}
			}
		}
	}
}

// machine is a simulated machine with a drafter.
type machine struct {
	r           *rand.Rand
	slope, step float64 // the costs of a row and of a step of the drafter, in passes
	noise       float64 // of its clock
	sure        float64 // how often the drafter is sure
	right       float64 // how often a sure draft is right; others are right a third as often

	// Of a draft model, which first reads the prompt:
	prompt  int
	reading float64 // the cost of a token, in passes
	assumed float64 // Round.Assumed
	knows   bool    // reading has been measured

	gain   float64 // Round.Gain
	power  float64 // of a pass with drafts, in that of a plain one; 0: the same
	energy float64 // that was used, in plain passes
}

// generate generates n tokens, with drafts of the drafter, and returns the time that it took.
func (m *machine) generate(n int, all *Chain, passes, steps *Times) (took float64) {
	chain := &Chain{Before: all}
	clock := func(seconds float64) float64 { return seconds * math.Exp(m.noise*m.r.NormFloat64()) }
	read, perToken := 0, 0.0
	if m.knows {
		perToken = m.reading
	}
	for done := 0; done < n; {
		round := Round{Rows: 1, Passes: passes, Drafter: steps, Assumed: m.assumed,
			Gain: m.gain}
		unread := 0
		if m.prompt > 0 {
			unread = m.prompt + done - read
		}
		depth, _ := round.ChainDepth(chain, min(MaxTokens, n-done-1), 1,
			round.Reading(unread, perToken, done, n-done-1))
		accepted, right, chance := 0, true, 1.0
		trial := depth == 0 && all.Try(round.Trial(unread, perToken))
		if depth > 0 {
			all.Used()
		}
		if (depth > 0 || trial) && unread > 0 {
			took += float64(unread) * m.reading
			m.energy += float64(unread) * m.reading
			read, perToken, m.knows = m.prompt+done, m.reading, true
		}
		for depth > 0 || trial {
			took, m.energy = took+m.step, m.energy+m.step
			steps.Observe(1, clock(m.step))
			probability, rate := 0.95, m.right
			if m.r.Float64() > m.sure {
				probability, rate = 0.4, m.right/3
			}
			hit := m.r.Float64() < rate
			if trial {
				chain.Observe(probability, hit)
				break
			}
			step, left := round.Step(1), min(MaxTokens, 2*depth+1)-round.Drafts-1
			round.Steps += step
			next := chance * chain.Rate(probability)
			if !round.Take(chain, next, step, left) {
				if right { // the next token tells
					chain.Observe(probability, hit)
				}
				break
			}
			round.Add(1, next, 0)
			chance = next
			if right {
				chain.Observe(probability, hit)
			}
			if right = right && hit; right {
				accepted++
			}
			if left == 0 || !round.More(chain, chance, step, left) {
				break
			}
		}
		pass := 1 + m.slope*float64(round.Drafts)
		took, m.energy = took+pass, m.energy+pass
		if round.Drafts > 0 && m.power > 0 {
			m.energy += pass * (m.power - 1)
		}
		passes.Observe(1+round.Drafts, clock(pass))
		steps.Tick()
		done += 1 + accepted
	}
	return took
}

// TestDrafterNeverSlower decodes with drafters that are good and bad, dear and cheap, on simulated
// machines with noisy clocks. Decoding is never slower than without by more than two percent, and
// where drafts are cheap and right it is much faster.
func TestDrafterNeverSlower(t *testing.T) {
	for _, slope := range []float64{0.05, 0.3, 0.6, 1} {
		for _, step := range []float64{0.03, 0.1, 0.3} {
			for _, right := range []float64{0.02, 0.5, 0.95} {
				for _, noise := range []float64{0, 0.2} {
					m := machine{r: rand.New(rand.NewPCG(uint64(slope*100), uint64(right*100))),
						slope: slope, step: step, noise: noise, sure: 0.8, right: right}
					var all Chain
					var passes, steps Times
					took, tokens := 0.0, 0
					for range 60 {
						took += m.generate(150, &all, &passes, &steps)
						tokens += 150
					}
					speed := float64(tokens) / took
					name := fmt.Sprintf("rows of %g, steps of %g, %g right, noise %g", slope, step,
						right, noise)
					t.Logf("%s: %.2f times as fast", name, speed)
					if speed < 0.98 {
						t.Errorf("%s: %.3f times as fast", name, speed)
					}
					if right > 0.9 && slope < 0.1 && step < 0.2 && speed < 1.8 {
						t.Errorf("%s: %.3f times as fast, expected 1.8", name, speed)
					}
				}
			}
		}
	}
}

// TestDraftModelNeverSlower decodes with draft models, which first read the prompt of each answer:
// small ones, the model itself, and one that takes much longer than its size lets expect. Decoding
// is never slower than without by more than two percent, not even a single short answer if what is
// assumed is about right.
func TestDraftModelNeverSlower(t *testing.T) {
	for _, c := range []struct {
		name                   string
		step, reading, assumed float64
		right                  float64
		answer                 int
		first, all             float64 // the least speeds of the first answer and of all
	}{
		{"a good one", 0.1, 0.01, 0.1, 0.95, 300, 0.98, 1.5},
		{"a bad one", 0.1, 0.01, 0.1, 0.02, 300, 0.9, 0.98},
		{"short answers", 0.1, 0.01, 0.1, 0.95, 40, 0.98, 1.1},
		{"itself", 1, 0.13, 1, 1, 300, 0.98, 0.98},
		{"itself, short answers", 1, 0.13, 1, 1, 60, 0.98, 0.98},
		{"slower than assumed", 1, 0.13, 0.1, 1, 60, 0.3, 0.98},
	} {
		for _, noise := range []float64{0, 0.2} {
			m := machine{r: rand.New(rand.NewPCG(7, 8)), slope: 0.1, step: c.step, noise: noise,
				sure: 0.9, right: c.right, prompt: 200, reading: c.reading, assumed: c.assumed}
			var all Chain
			var passes, steps Times
			first, took, answers := 0.0, 0.0, 60
			for i := range answers {
				took += m.generate(c.answer, &all, &passes, &steps)
				if i == 0 {
					first = float64(c.answer) / took
				}
			}
			speed := float64(answers*c.answer) / took
			t.Logf("%s, noise %g: the first answer %.2f times as fast, all %.2f", c.name, noise,
				first, speed)
			if first < c.first || speed < c.all {
				t.Errorf("%s, noise %g: the first answer %.3f times as fast, all %.3f, expected "+
					"%g and %g", c.name, noise, first, speed, c.first, c.all)
			}
		}
	}
}

// TestReading: what a long prompt costs is spread over as many passes as the answer is expected to
// have, which is half of its tokens so far.
func TestReading(t *testing.T) {
	for _, c := range []struct {
		unread, answer, most int
		want                 float64
	}{{0, 1, 100, 0}, {1000, 1, 100, 1}, {1000, 10, 100, 0.2}, {1000, 50, 4, 0.5}} {
		if got := new(Round).Reading(c.unread, 0.001, c.answer, c.most); got != c.want {
			t.Errorf("%d tokens, answer of %d, %d left: %g, expected %g", c.unread, c.answer,
				c.most, got, c.want)
		}
	}
}

// TestTry: trials are the rarer the longer there are only trials, and a long one waits until it is
// an 80th of the passes since the last.
func TestTry(t *testing.T) {
	for _, c := range []struct {
		passes float64
		want   []int // calls of Try from one trial to the next
	}{{0, []int{8, 16, 32, 64, 128, 256, 512, 512}}, {0.2, []int{16, 16, 32, 64}},
		{3, []int{240, 240, 240, 240, 240, 256, 512}}} {
		var chain Chain
		for i, want := range c.want {
			calls := 1
			for !chain.Try(c.passes) {
				calls++
			}
			if calls != want {
				t.Errorf("trials of %g passes: %d comes after %d passes, expected %d", c.passes, i,
					calls, want)
			}
		}
	}
}

// TestSavesEnergy decodes on simulated machines on which passes with drafts take up to a fifth more
// power. With SavingGain, decoding never takes more energy than without drafts by more than two
// percent, and it saves much where drafts are cheap and right. With DefaultGain it takes more on
// some machines, so the test can tell them apart.
func TestSavesEnergy(t *testing.T) {
	worst := map[float64]float64{}
	for _, gain := range []float64{DefaultGain, SavingGain} {
		for _, power := range []float64{1.1, 1.2} {
			for _, slope := range []float64{0.05, 0.3, 0.6} {
				for _, step := range []float64{0.03, 0.1, 0.3} {
					for _, right := range []float64{0.3, 0.5, 0.7, 0.95} {
						m := machine{r: rand.New(rand.NewPCG(uint64(slope*100), uint64(right*100))),
							slope: slope, step: step, noise: 0.1, sure: 0.8, right: right,
							gain: gain, power: power}
						var all Chain
						var passes, steps Times
						const tokens = 60 * 150
						for range 60 {
							m.generate(150, &all, &passes, &steps)
						}
						used := m.energy / tokens
						worst[gain] = max(worst[gain], used)
						name := fmt.Sprintf("gain %g, power %g, rows of %g, steps of %g, %g right",
							gain, power, slope, step, right)
						t.Logf("%s: %.3f of the energy", name, used)
						if right > 0.9 && slope < 0.1 && step < 0.2 && used > 0.7 {
							t.Errorf("%s: %.3f of the energy of plain decoding, expected 0.7", name,
								used)
						}
					}
				}
			}
		}
	}
	if worst[SavingGain] > 1.02 || worst[DefaultGain] <= 1.02 {
		t.Errorf("the most energy is %.3f of that of plain decoding, and %.3f with DefaultGain; "+
			"expected at most 1.02, and more than that", worst[SavingGain], worst[DefaultGain])
	}
}
