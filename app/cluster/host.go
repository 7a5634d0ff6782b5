package cluster

// Hosts, and the files that tell MLX about them. A host file is that of mlx.launch: a JSON list, or
// an object with "backend", "envs" and "hosts". A host has "ssh", its name for ssh, "ips", its
// addresses for the ring, and "rdma", its device to every host for JACCL (null: itself).
//
// Source: mlx 0.32.4, _distributed_utils/common.py and launch.py.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"headroom/engine/problem"
)

// The backends of mx.distributed that a cluster can use.
const (
	Ring  = "ring"  // TCP
	JACCL = "jaccl" // RDMA over Thunderbolt
)

// MaxRanks bounds the ranks of a cluster.
const MaxRanks = 64

// Host is one rank's machine. The same machine may have several ranks.
type Host struct {
	// SSH is the name for ssh, which may have a user; "" and localhost: this machine.
	SSH string `json:"ssh"`
	// IPs are its addresses. The first that the others reach is used; none: Headroom looks for one.
	IPs []string `json:"ips,omitempty"`
	// RDMA has the device to each rank, for JACCL. It is a name, a list of names, or null.
	RDMA []json.RawMessage `json:"rdma,omitempty"`
}

// Local reports whether the host is this machine.
func (h Host) Local() bool {
	return h.SSH == "" || h.SSH == "localhost" || h.SSH == "127.0.0.1" || h.SSH == "::1"
}

// String returns the host's name.
func (h Host) String() string {
	if h.Local() {
		return "this machine"
	}
	return h.SSH
}

// Hostfile is the content of a host file.
type Hostfile struct {
	Backend string   `json:"backend"`
	Envs    []string `json:"envs"`
	Hosts   []Host   `json:"hosts"`
}

func badHosts(why, fix string, values ...any) error {
	return problem.New(problem.BadRequest, "The hosts of the cluster cannot be used",
		fmt.Sprintf(why, values...), fix)
}

// ParseHosts returns the hosts of a list such as "localhost,mac2,user@mac3".
func ParseHosts(list string) ([]Host, error) {
	var hosts []Host
	for _, name := range strings.Split(list, ",") {
		hosts = append(hosts, Host{SSH: strings.TrimSpace(name)})
	}
	return hosts, checkHosts(hosts)
}

// LocalHosts returns n ranks on this machine.
func LocalHosts(n int) ([]Host, error) {
	if n < 2 || n > MaxRanks {
		return nil, badHosts("%d ranks were asked for", fmt.Sprintf(
			"Use 2 to %d. A model that fits on one machine needs no cluster.", MaxRanks), n)
	}
	hosts := make([]Host, n)
	for i := range hosts {
		hosts[i].SSH = "localhost"
	}
	return hosts, nil
}

// ReadHostfile reads a host file. The error is a Problem.
func ReadHostfile(path string) (Hostfile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Hostfile{}, problem.Wrap(problem.BadRequest, err,
			"The host file cannot be read", "Check --hostfile.")
	}
	return parseHostfile(text)
}

func parseHostfile(text []byte) (f Hostfile, err error) {
	if text = bytes.TrimSpace(text); bytes.HasPrefix(text, []byte("[")) {
		err = json.Unmarshal(text, &f.Hosts)
	} else {
		err = json.Unmarshal(text, &f)
	}
	if err != nil {
		return f, badHosts("the host file is not that of mlx.launch: %v", "Write a JSON list of "+
			`hosts such as {"ssh": "mac2", "ips": ["192.168.1.2"]}.`, err)
	}
	if f.Backend == "jaccl-ring" || f.Backend != "" && f.Backend != Ring && f.Backend != JACCL {
		return f, badHosts("the backend of the host file is %q", "Use ring or jaccl.", f.Backend)
	}
	for _, e := range f.Envs {
		name, _, ok := strings.Cut(e, "=")
		if !ok || !variable(name) {
			return f, badHosts("%q is no environment variable", `Write it as "NAME=value".`, e)
		}
	}
	return f, checkHosts(f.Hosts)
}

// variable reports whether a name is that of a variable of MLX. Others, such as PATH, could change
// which program runs.
func variable(name string) bool {
	rest, ok := strings.CutPrefix(name, "MLX_")
	return ok && strings.Trim(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

func checkHosts(hosts []Host) error {
	if len(hosts) < 2 {
		return badHosts("there is only one", "Name at least two, or use --ranks 2 for a trial on "+
			"this machine. A model that fits on one machine needs no cluster.")
	}
	if len(hosts) > MaxRanks {
		return badHosts("there are %d", fmt.Sprintf("Use at most %d.", MaxRanks), len(hosts))
	}
	for _, h := range hosts {
		if err := checkHost(h); err != nil {
			return err
		}
	}
	return nil
}

func checkHost(h Host) error {
	switch {
	case h.SSH == "":
		return badHosts("a name is empty", "Write localhost for this machine.")
	case strings.HasPrefix(h.SSH, "-") || strings.ContainsFunc(h.SSH, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune(`'"\$;&|<>()*?!`+"`", c)
	}):
		return badHosts("%q is no name for ssh", "Use a name such as mac2.local or user@mac2.",
			h.SSH)
	}
	for _, ip := range h.IPs {
		if a, err := netip.ParseAddr(ip); err != nil || !a.Is4() {
			return badHosts("%q of %s is no IPv4 address",
				"MLX's ring needs addresses such as 192.168.1.2.", ip, h.SSH)
		}
	}
	return nil
}

// checkRDMA checks the devices of JACCL: each host has one to every other, and null for itself.
func checkRDMA(hosts []Host) error {
	const fix = "Write the host file with mlx.distributed_config, or see ibv_devices on each Mac."
	for i, h := range hosts {
		if len(h.RDMA) != len(hosts) {
			return badHosts("%s names %d RDMA devices for %d hosts", fix, h, len(h.RDMA),
				len(hosts))
		}
		for j, device := range h.RDMA {
			if null := len(device) == 0 || string(device) == "null"; null != (i == j) {
				if null {
					return badHosts("%s names no RDMA device to %s", fix, h, hosts[j])
				}
				return badHosts("%s names an RDMA device to itself", fix, h)
			}
		}
	}
	return nil
}

// world is what MLX's ranks are told. ips and ports are by rank; ports of JACCL has one.
func world(backend string, hosts []Host, ips []string, ports []int, n int) rank {
	r := rank{Rank: n, Env: map[string]string{"MLX_RANK": fmt.Sprint(n)},
		Files: map[string]string{}}
	if backend == JACCL {
		matrix := make([][]json.RawMessage, len(hosts))
		for i, h := range hosts {
			matrix[i] = h.RDMA
		}
		r.Files["MLX_IBV_DEVICES"] = encoded(matrix)
		r.Env["MLX_METAL_FAST_SYNCH"] = "1" // as mlx.distributed_config writes into host files
		r.Env["MLX_JACCL_COORDINATOR"] = fmt.Sprintf("%s:%d", ips[0], ports[0])
		return r
	}
	ring := make([][]string, len(hosts))
	for i := range hosts {
		ring[i] = []string{fmt.Sprintf("%s:%d", ips[i], ports[i])}
	}
	r.Files["MLX_HOSTFILE"] = encoded(ring)
	return r
}

func encoded(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic("cluster: encoding a host file: " + err.Error()) // checkRDMA and parsing exclude it
	}
	return string(text)
}
