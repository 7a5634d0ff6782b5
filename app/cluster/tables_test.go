package cluster

// What needs no process: host files, plans, and what is read from other programs.

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParseHosts(t *testing.T) {
	for _, c := range []struct{ list, want string }{
		{"localhost,mac2", ""},
		{"localhost, me@mac2.local", ""},
		{"mac2", "there is only one"},
		{"localhost,", "a name is empty"},
		{"localhost,-oProxyCommand=x", "is no name for ssh"},
		{"localhost,a b", "is no name for ssh"},
		{"localhost,a;b", "is no name for ssh"},
		{strings.Repeat("a,", MaxRanks) + "a", "Use at most 64"},
	} {
		_, err := ParseHosts(c.list)
		wants(t, c.list, err, c.want)
	}
	_, err := LocalHosts(1)
	wants(t, "one rank", err, "Use 2 to 64")
}

func wants(t *testing.T, name string, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil ||
		!strings.Contains(err.Error(), want)) {
		t.Errorf("%s: the error is %v, expected %q", name, err, want)
	}
}

func TestHostfile(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`[{"ssh": "a", "ips": ["10.0.0.1"]}, {"ssh": "b"}]`, ""},
		{`{"backend": "jaccl", "envs": ["MLX_METAL_FAST_SYNCH=1"], "hosts": [{"ssh": "a"},
			{"ssh": "b"}]}`, ""},
		{`{"hosts": [{"ssh": "a"}]}`, "there is only one"},
		{`{`, "is not that of mlx.launch"},
		{`[{"ssh": "a", "ips": ["fe80::1"]}, {"ssh": "b"}]`, "no IPv4 address"},
		{`{"backend": "mpi", "hosts": []}`, "Use ring or jaccl"},
		{`{"envs": ["PATH=/tmp"], "hosts": []}`, "is no environment variable"},
		{`{"envs": ["MLX_A"], "hosts": []}`, "is no environment variable"},
	} {
		_, err := parseHostfile([]byte(c.text))
		wants(t, c.text, err, c.want)
	}
	_, err := ReadHostfile("/nowhere")
	wants(t, "no file", err, "Check --hostfile")
}

func hostsOf(t *testing.T, text string) []Host {
	t.Helper()
	f, err := parseHostfile([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f.Hosts
}

func TestRDMAMatrix(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{`[null, "rdma_en5"]`, `["rdma_en5", null]`, ""},
		{`[null, ["rdma_en5", "rdma_en6"]]`, `["rdma_en5", null]`, ""},
		{`[null]`, `["rdma_en5", null]`, "a names 1 RDMA devices for 2 hosts"},
		{`[null, null]`, `["rdma_en5", null]`, "a names no RDMA device to b"},
		{`[null, "rdma_en5"]`, `["rdma_en5", "x"]`, "b names an RDMA device to itself"},
	} {
		hosts := hostsOf(t, fmt.Sprintf(`[{"ssh": "a", "rdma": %s}, {"ssh": "b", "rdma": %s}]`,
			c.a, c.b))
		wants(t, c.a+c.b, checkRDMA(hosts), c.want)
	}
}

// TestWorld compares what the ranks are told with what mlx.launch tells them.
func TestWorld(t *testing.T) {
	hosts := hostsOf(t, `[{"ssh": "a", "rdma": [null, "rdma_en5"]},
		{"ssh": "b", "rdma": ["rdma_en6", null]}]`)
	ips, ports := []string{"10.0.0.1", "10.0.0.2"}, []int{7000, 7001}
	ring := world(Ring, hosts, ips, ports, 1)
	if want := map[string]string{"MLX_RANK": "1"}; !maps.Equal(ring.Env, want) {
		t.Errorf("the ring's variables are %v", ring.Env)
	}
	if want := map[string]string{
		"MLX_HOSTFILE": `[["10.0.0.1:7000"],["10.0.0.2:7001"]]`}; !maps.Equal(ring.Files, want) {
		t.Errorf("the ring's files are %v", ring.Files)
	}
	jaccl := world(JACCL, hosts, ips, ports, 0)
	if want := map[string]string{"MLX_RANK": "0", "MLX_METAL_FAST_SYNCH": "1",
		"MLX_JACCL_COORDINATOR": "10.0.0.1:7000"}; !maps.Equal(jaccl.Env, want) {
		t.Errorf("JACCL's variables are %v", jaccl.Env)
	}
	if want := map[string]string{
		"MLX_IBV_DEVICES": `[[null,"rdma_en5"],["rdma_en6",null]]`}; !maps.Equal(jaccl.Files, want) {
		t.Errorf("JACCL's files are %v", jaccl.Files)
	}
}

func TestRDMA(t *testing.T) {
	const table = "    device          \t   node GUID\n    ------          \t----------------\n" +
		"    rdma_en5        \t6a5fd1a8b1c20000\n    rdma_en6        \t6a5fd1a8b1c20001\n"
	for _, c := range []struct {
		system, listed string
		err            error
		status, want   string
	}{
		{"darwin", table, nil, "enabled", "[rdma_en5 rdma_en6]"},
		{"darwin", "    device\n    ------\n", nil, "RDMA is disabled", "RDMA is disabled"},
		{"darwin", "", nil, "", "lists no device"},
		{"darwin", "", exec.ErrNotFound, "", "macOS 26.2"},
		{"linux", table, nil, "", "only on macOS"},
	} {
		if got := fmt.Sprint(rdmaOf(c.system, c.listed, c.err, c.status)); !strings.Contains(got,
			c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestWeights(t *testing.T) {
	p := Parts{Layers: []int64{10, 20, 30, 40, 50}, Other: 7}
	for _, c := range []struct {
		mode  string
		ranks int
		want  []int64
	}{
		{Tensor, 2, []int64{82, 82}},
		// mlx-lm's PipelineMixin: rank 0 has the last layers, and the low ranks one more.
		{Pipeline, 2, []int64{30 + 40 + 50 + 7, 10 + 20 + 7}},
		{Pipeline, 3, []int64{40 + 50 + 7, 20 + 30 + 7, 10 + 7}},
	} {
		if got := p.weights(c.mode, c.ranks); !slices.Equal(got, c.want) {
			t.Errorf("%s over %d: %d, expected %d", c.mode, c.ranks, got, c.want)
		}
	}
	all := shares([]int64{100, 50, 60}, []string{"a", "b", "a"}, []int64{5e9, 100, 5e9})
	if len(all) != 2 || all[0].Weights != 160 || !slices.Equal(all[0].Ranks, []int{0, 2}) {
		t.Errorf("the shares are %+v", all)
	}
	wants(t, "memory", fits(all), "b needs 256 MB for its part of the model, and has 0.0 MB")
	wants(t, "memory", fits(all[:1]), "")
}

func TestMode(t *testing.T) {
	for _, c := range []struct {
		parts       Parts
		asked, want string
	}{
		{Parts{Tensor: true, Pipeline: true}, "", Tensor},
		{Parts{Pipeline: true}, "", Pipeline},
		{Parts{Tensor: true, Pipeline: true}, Pipeline, Pipeline},
		{Parts{Tensor: true}, Pipeline, "Use --tensor."},
		{Parts{Pipeline: true}, Tensor, "Use --pipeline."},
		{Parts{}, "", "mlx-lm cannot split models of the type of m"},
	} {
		got, err := c.parts.mode(c.asked, "m")
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%+v, %q: %s, expected %s", c.parts, c.asked, got, c.want)
		}
	}
}

// TestRewritten keeps all other fields as they are.
func TestRewritten(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":null}],"seed":18446744073709551615,"a":null}`
	got, err := rewritten([]byte(body), "m")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"messages":[{"role":"user","content":null}],"model":"m",` +
		`"seed":18446744073709551615}`
	if string(got) != want {
		t.Errorf("%s, expected %s", got, want)
	}
}

// TestReadLines skips what a shell prints.
func TestReadLines(t *testing.T) {
	in := "Welcome!\n{\"id\": 1}\n\n{broken\n[2]\n{\"id\": 3, \"done\": true}"
	var got []reply
	err := readLines(strings.NewReader(in), func(r *reply) { got = append(got, *r) })
	if err != nil {
		t.Fatal(err)
	}
	if want := []reply{{ID: 1}, {ID: 3, Done: true}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, expected %+v", got, want)
	}
	if err := readLines(strings.NewReader(strings.Repeat("x", maxLine+1)),
		func(*reply) {}); err == nil {
		t.Error("a line of any length is read")
	}
}

func TestReadText(t *testing.T) {
	var got []string
	long := strings.Repeat("x", maxText+10)
	readText(strings.NewReader("a\r\n\n"+long+"\nb\xff"), func(s string) { got = append(got, s) })
	if len(got) != 3 || got[0] != "a" || len(got[1]) != maxText || got[2] != "b\uFFFD" {
		t.Errorf("%d lines: %.20q", len(got), got)
	}
}

// TestFailure sends a Problem and gets the same.
func TestFailure(t *testing.T) {
	err := badHosts("why", "fix")
	text, _ := json.Marshal(failureOf(err))
	back := new(failure)
	if e := json.Unmarshal(text, back); e != nil || back.problem().Error() != err.Error() {
		t.Errorf("%s became %v", text, back.problem())
	}
	if failureOf(nil).problem() != nil {
		t.Error("no error became one")
	}
	if got := failureOf(errors.New("x")); got.Why != "x" {
		t.Errorf("%+v", got)
	}
}

func FuzzHostfile(f *testing.F) {
	f.Add([]byte(`[{"ssh": "a", "ips": ["10.0.0.1"], "rdma": [null, "x"]}, {"ssh": "b"}]`))
	f.Add([]byte(`{"backend": "jaccl", "envs": ["MLX_A=1"], "hosts": [{}, {}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := parseHostfile(text)
		if err != nil {
			return
		}
		ips, ports := make([]string, len(file.Hosts)), make([]int, len(file.Hosts))
		if checkRDMA(file.Hosts) == nil {
			_ = world(JACCL, file.Hosts, ips, ports, 0)
		}
		_ = world(Ring, file.Hosts, ips, ports, 0)
		for _, h := range file.Hosts {
			if strings.HasPrefix(h.SSH, "-") {
				t.Errorf("ssh would take the host %q for an option", h.SSH)
			}
		}
	})
}

func FuzzMessages(f *testing.F) {
	f.Add([]byte("{\"id\": 1, \"done\": true, \"ms\": [1]}\n{\"op\": \"rank\", \"rank\": {}}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_ = readLines(strings.NewReader(string(text)), func(r *reply) { _ = r.Error.problem() })
		_ = readLines(strings.NewReader(string(text)), func(*request) {})
		readText(strings.NewReader(string(text)), func(string) {})
	})
}

// TestAnswers compares replies with what operations promise.
func TestAnswers(t *testing.T) {
	two := []string{"a", "b"}
	for _, c := range []struct {
		q    request
		r    reply
		want bool
	}{
		{request{Op: opPing}, reply{}, true},
		{request{Op: opClose}, reply{}, true},
		{request{Op: opRank}, reply{}, true},
		{request{Op: opFacts}, reply{}, false},
		{request{Op: opFacts}, reply{Facts: &Facts{}}, true},
		{request{Op: opModel}, reply{Parts: &Parts{}}, false},
		{request{Op: opModel}, reply{Found: &Found{}}, true},
		{request{Op: opProbe}, reply{Found: &Found{}}, false},
		{request{Op: opProbe}, reply{Parts: &Parts{}}, true},
		{request{Op: opListen, Addresses: two}, reply{Ports: []int{1}}, false},
		{request{Op: opListen, Addresses: two}, reply{Ports: []int{1, 2}}, true},
		{request{Op: opListen, Addresses: two}, reply{Ports: []int{1, 2, 3}}, false},
		{request{Op: opDial, Addresses: two}, reply{Ms: []float64{1}}, false},
		{request{Op: opDial, Addresses: two}, reply{Ms: []float64{1, 2}}, true},
		{request{Op: opDial, Addresses: two}, reply{Ms: []float64{1, 2, 3}}, false},
	} {
		if got := c.r.answers(&c.q); got != c.want {
			t.Errorf("%+v answers %+v: %v, expected %v", c.r, c.q, got, c.want)
		}
	}
}

// TestSSHOptions: an ssh of a cluster asks nothing, and is no master for the user's others.
func TestSSHOptions(t *testing.T) {
	c, err := Shell{}.command(Host{SSH: "me@far"}, "node")
	if err != nil {
		t.Fatal(err)
	}
	host := slices.Index(c.Args, "me@far")
	for _, want := range []string{"BatchMode=yes", "ControlMaster=no", "ControlPath=none"} {
		if i := slices.Index(c.Args, want); i < 1 || i > host || c.Args[i-1] != "-o" {
			t.Errorf("%q has no option %s", c.Args, want)
		}
	}
}
