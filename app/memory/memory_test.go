package memory

import (
	"errors"
	"os"
	"testing"
	"time"
)

const gib = 1 << 30

func TestSplit(t *testing.T) {
	cases := []struct {
		name   string
		r      Reading
		engine EngineBytes
		want   map[Kind]int64 // in GiB; the rest is 0
	}{
		{"no engine", Reading{TotalBytes: 16 * gib, AvailableBytes: 9 * gib, ProcessBytes: 1 * gib},
			EngineBytes{},
			map[Kind]int64{Headroom: 1, Other: 6, Free: 9}},
		{"engine in private memory",
			Reading{TotalBytes: 16 * gib, AvailableBytes: 4 * gib, ProcessBytes: 7 * gib},
			EngineBytes{Weights: 2 * gib, KVUsed: 1 * gib, KVCached: 1 * gib, State: 1 * gib,
				Scratch: 1 * gib},
			map[Kind]int64{Weights: 2, KVUsed: 1, KVCached: 1, State: 1, Scratch: 1, Headroom: 1,
				Other: 5, Free: 4}},
		// The 12 available include 3 of mapped weights, so 9 are free. Other programs use 16-9-3-1.
		{"mapped weights", Reading{TotalBytes: 16 * gib, AvailableBytes: 12 * gib,
			ProcessBytes: 4 * gib, ProcessFileBytes: 3 * gib},
			EngineBytes{Weights: 3 * gib},
			map[Kind]int64{Weights: 3, Headroom: 1, Other: 3, Free: 9}},
		// 5 are reserved but not used. They are not free, although the system counts them as
		// available.
		{"reserved", Reading{TotalBytes: 16 * gib, AvailableBytes: 12 * gib,
			ProcessBytes: 1 * gib},
			EngineBytes{KVCached: 1 * gib, Reserved: 5 * gib},
			map[Kind]int64{KVCached: 1, Reserved: 5, Other: 3, Free: 7}},
		// The process has 2 resident, but the engine reports 3, because its states are unused. The
		// segment of the program itself is still 1, its RuntimeBytes.
		{"unused states", Reading{TotalBytes: 16 * gib, AvailableBytes: 10 * gib,
			ProcessBytes: 2 * gib, RuntimeBytes: 1 * gib},
			EngineBytes{Weights: 1 * gib, State: 2 * gib},
			map[Kind]int64{Weights: 1, State: 2, Headroom: 1, Other: 2, Free: 10}},
		{"more than the total", Reading{TotalBytes: 4 * gib, AvailableBytes: 1 * gib},
			EngineBytes{Weights: 3 * gib, KVUsed: 3 * gib}, map[Kind]int64{Weights: 3, KVUsed: 1}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ledger := Split(c.r, c.engine)
			sum := int64(0)
			for _, s := range ledger.Segments {
				sum += s.Bytes
				if s.Bytes != c.want[s.Kind]*gib {
					t.Errorf("%s: %d bytes, want %d GiB", s.Kind, s.Bytes, c.want[s.Kind])
				}
			}
			if sum != c.r.TotalBytes {
				t.Errorf("the segments add up to %d, the total is %d", sum, c.r.TotalBytes)
			}
		})
	}
}

func TestHeadroom(t *testing.T) {
	cases := []struct {
		name string
		r    Reading
		e    EngineBytes
		want int64
	}{
		{"an eighth is reserved", Reading{TotalBytes: 16 * gib, AvailableBytes: 10 * gib},
			EngineBytes{}, 8 * gib},
		{"Headroom's mapped pages are not free",
			Reading{TotalBytes: 16 * gib, AvailableBytes: 10 * gib, ProcessBytes: 3 * gib,
				ProcessFileBytes: 3 * gib},
			EngineBytes{Weights: 3 * gib}, 5 * gib},
		{"reserved pages are not free",
			Reading{TotalBytes: 16 * gib, AvailableBytes: 10 * gib, ProcessBytes: 1 * gib},
			EngineBytes{KVCached: 1 * gib, Reserved: 3 * gib}, 5 * gib},
		{"at most 8 GiB reserved", Reading{TotalBytes: 128 * gib, AvailableBytes: 100 * gib},
			EngineBytes{}, 92 * gib},
		{"at least half a GiB reserved", Reading{TotalBytes: 2 * gib, AvailableBytes: 1 * gib},
			EngineBytes{}, gib / 2},
		{"at most half is reserved", Reading{TotalBytes: 16 * gib, AvailableBytes: 1 * gib},
			EngineBytes{}, gib / 2},
		{"never negative", Reading{TotalBytes: 16 * gib, AvailableBytes: 1 * gib},
			EngineBytes{Reserved: 8 * gib}, 0},
		{"wired limit",
			Reading{TotalBytes: 64 * gib, AvailableBytes: 60 * gib, WiredLimitBytes: 40 * gib},
			EngineBytes{}, 40 * gib},
	}
	for _, c := range cases {
		if got := c.r.HeadroomBytes(c.e, EngineBytes{}); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestHeadroomAfterUnloading: what is said to be available once models are unloaded is what is
// available when they are. On a full machine that is less than the sum: the reserve grows.
func TestHeadroomAfterUnloading(t *testing.T) {
	r := Reading{TotalBytes: 24 * gib, AvailableBytes: 2 * gib, ProcessBytes: 10 * gib}
	e := EngineBytes{Weights: 8 * gib, KVCached: 1 * gib, Reserved: 1 * gib}
	said := r.HeadroomBytes(e, e)
	// Free are 1 of the 2, since 1 is reserved. Then 11 are free, and 3 of them withheld.
	after := Reading{TotalBytes: 24 * gib, AvailableBytes: 11 * gib, ProcessBytes: 1 * gib}
	if got := after.HeadroomBytes(EngineBytes{}, EngineBytes{}); said != 8*gib || got != said {
		t.Errorf("%d available after unloading, then %d, want %d", said, got, int64(8*gib))
	}
	r.WiredLimitBytes = 9 * gib
	other := EngineBytes{Weights: 4 * gib}
	if got := r.HeadroomBytes(e.Add(other), e); got != 5*gib {
		t.Errorf("%d within the wired limit, want %d: another model has 4 of 9 GiB", got,
			int64(5*gib))
	}
}

// TestPlanned: the model replaces all others. One that does not fit makes the bar longer.
func TestPlanned(t *testing.T) {
	l := Split(Reading{TotalBytes: 16 * gib, AvailableBytes: 4 * gib, ProcessBytes: 7 * gib},
		EngineBytes{Weights: 4 * gib, Scratch: 2 * gib}) // 1 of Headroom, 5 of others
	for need, total := range map[int64]int64{6: 16, 12: 18} {
		p := Planned(l, EngineBytes{Weights: need * gib})
		sum := int64(0)
		for _, s := range p.Segments {
			sum += s.Bytes
		}
		if p.TotalBytes != total*gib || sum != p.TotalBytes || p.Segments[0].Bytes != need*gib ||
			p.Segments[6].Bytes != 1*gib || p.Segments[7].Bytes != 5*gib {
			t.Errorf("with %d GiB: %+v", need, p)
		}
	}
}

func TestText(t *testing.T) {
	for bytes, want := range map[int64]string{-1: "0.0 MB", 5 << 19: "2.5 MB", 300 << 20: "300 MB",
		1 << 30: "1.0 GB", 9986 << 20: "9.8 GB"} {
		if got := Text(bytes); got != want {
			t.Errorf("Text(%d) = %q, want %q", bytes, got, want)
		}
	}
}

func TestFits(t *testing.T) {
	for _, c := range []struct {
		need int64
		want Fit
	}{{0, Yes}, {850, Yes}, {851, Tight}, {1000, Tight}, {1001, No}} {
		if got := Fits(c.need, 1000); got != c.want {
			t.Errorf("Fits(%d, 1000) = %s, want %s", c.need, got, c.want)
		}
	}
}

func TestMeterCachesReadings(t *testing.T) {
	clock, calls := time.Unix(100, 0), 0
	var fail error
	m := Meter{now: func() time.Time { return clock }, measure: func([]int) (Reading, error) {
		calls++
		return Reading{TotalBytes: int64(calls)}, fail
	}}
	read := func(wantTotal int64, wantErr error) {
		t.Helper()
		if r, err := m.Read(); r.TotalBytes != wantTotal || !errors.Is(err, wantErr) {
			t.Errorf("Read: %d, %v; want %d, %v", r.TotalBytes, err, wantTotal, wantErr)
		}
	}
	read(1, nil)
	clock = clock.Add(maxAge - 1)
	read(1, nil)
	clock = clock.Add(1)
	read(2, nil)
	if r, _ := m.Fresh(); r.TotalBytes != 3 {
		t.Errorf("Fresh returned reading %d, want a new one", r.TotalBytes)
	}
	clock, fail = clock.Add(maxAge), errors.New("no")
	read(3, fail)
}

// TestMachine checks that the figures of this machine are consistent.
func TestMachine(t *testing.T) {
	r, err := new(Meter).Read()
	if err != nil {
		t.Fatal(err)
	}
	if r.TotalBytes < 64<<20 || r.AvailableBytes <= 0 || r.AvailableBytes > r.TotalBytes ||
		r.ProcessBytes <= 0 || r.ProcessBytes > r.TotalBytes || r.ProcessFileBytes < 0 ||
		r.ProcessFileBytes > r.ProcessBytes {
		t.Errorf("inconsistent figures: %+v", r)
	}
}

// TestCount: a counted process adds its resident memory. The test counts this process twice.
func TestCount(t *testing.T) {
	var m Meter
	read := func() Reading {
		t.Helper()
		r, err := m.Read() // a new reading, because Count and Forget discard the last one
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	once := read()
	m.Count(os.Getpid())
	twice := read()
	m.Forget(os.Getpid())
	if again := read(); twice.ProcessBytes < once.ProcessBytes*3/2 ||
		again.ProcessBytes > twice.ProcessBytes*3/4 {
		t.Errorf("%d bytes, with another process %d, without it %d", once.ProcessBytes,
			twice.ProcessBytes, again.ProcessBytes)
	}
	m.Count(1 << 30) // no such process
	if r := read(); r.ProcessBytes <= 0 || r.ProcessBytes > twice.ProcessBytes*3/4 {
		t.Errorf("with a process that has ended: %d bytes", r.ProcessBytes)
	}
}
