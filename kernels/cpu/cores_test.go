package cpu

import (
	"fmt"
	"slices"
	"testing"
	"testing/fstest"
)

func TestPerformanceCores(t *testing.T) {
	capacities := func(values ...string) fstest.MapFS {
		sys := fstest.MapFS{}
		for cpu, v := range values {
			name := fmt.Sprintf("devices/system/cpu/cpu%d/cpu_capacity", cpu)
			sys[name] = &fstest.MapFile{Data: []byte(v + "\n")}
		}
		return sys
	}
	hybrid := capacities("1024", "1024", "1024", "1024", "500", "500")
	hybrid["devices/cpu_core/cpus"] = &fstest.MapFile{Data: []byte("0-1,3\n")}
	broken := fstest.MapFS{"devices/cpu_core/cpus": {Data: []byte("0-x")}}
	for _, c := range []struct {
		name    string
		sys     fstest.MapFS
		allowed []int
		want    []int
	}{
		{"nothing known", fstest.MapFS{}, []int{0, 1, 2}, []int{0, 1, 2}},
		{"all alike", capacities("1024", "1024"), []int{0, 1}, []int{0, 1}},
		{"Intel hybrid", hybrid, []int{0, 1, 2, 3, 4, 5}, []int{0, 1, 3}},
		{"affinity to some", hybrid, []int{1, 3, 5}, []int{1, 3}},
		{"affinity to efficiency cores", hybrid, []int{4, 5}, []int{4, 5}},
		{"unreadable list", broken, []int{0, 1}, []int{0, 1}},
		{"two kinds of cores", capacities("300", "300", "1024", "1024"), []int{0, 1, 2, 3},
			[]int{2, 3}},
		{"three kinds of cores", capacities("300", "820", "820", "1024"), []int{0, 1, 2, 3},
			[]int{1, 2, 3}},
		{"the greatest is not allowed", capacities("300", "500", "1024"), []int{0, 1},
			[]int{0, 1}},
		{"a capacity is missing", capacities("300", "1024"), []int{0, 1, 2}, []int{0, 1, 2}},
		{"a capacity is not a number", capacities("300", "fast"), []int{0, 1}, []int{0, 1}},
	} {
		if got := performanceCores(c.sys, c.allowed); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, expected %v", c.name, got, c.want)
		}
	}
}

func TestDefaultThreads(t *testing.T) {
	c := NewContext(Options{})
	defer c.Close()
	if n := defaultThreads(); n < 1 || c.Threads != n {
		t.Errorf("got %d threads, expected the %d performance cores", c.Threads, n)
	}
}
