package commands

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/machines"
	"headroom/engine/problem"
)

// TestClusterWords: wrong input gets a sentence, before anything is started.
func TestClusterWords(t *testing.T) {
	home := isolate(t)
	file := filepath.Join(home, "hosts.json")
	if err := os.WriteFile(file, []byte(`[{"ssh": "localhost"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	const choose = "Use one of --hosts, --hostfile and --ranks."
	for line, want := range map[string]string{
		"cluster start headroom-demo":                                 choose,
		"cluster start headroom-demo --ranks 2 --hosts a,b":           choose,
		"cluster start headroom-demo --ranks 1":                       "Use 2 to 64",
		"cluster start headroom-demo --hosts a":                       "there is only one",
		"cluster start headroom-demo --hosts a,-b":                    "is no name for ssh",
		"cluster start headroom-demo --hosts a,b --backend jaccl":     "needs a host file",
		"cluster start headroom-demo --hostfile " + file:              "there is only one",
		"cluster start headroom-demo --hosts a,b --pipeline --tensor": "can't be used together",
		"cluster start headroom-demo --hosts a,b --backend mpi":       "--backend must be one of",
		"cluster start nosuch --ranks 2":                              "nosuch",
		"cluster start headroom-demo --ranks 3 --tensor":              "4 attention heads",
		"cluster check":                        "Name the machines",
		"cluster check a b --ssh /nowhere/ssh": "The cluster cannot reach a",
		"cluster forward 0":                    "0 is no port",
		"cluster status --port 1":              "No cluster runs on port 1",
	} {
		code, out, errOut := headroom("", strings.Fields(line)...)
		if code == 0 || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit %d, %q, %s; expected %s", line, code, out, errOut, want)
		}
	}
}

// TestClusterPort: a port that is taken is said before hosts are asked.
func TestClusterPort(t *testing.T) {
	isolate(t)
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	port := s.Listener.Addr().(*net.TCPAddr)
	_, number, _ := net.SplitHostPort(port.String())
	code, _, errOut := headroom("", "cluster", "start", "headroom-demo", "--ranks", "2", "--port",
		number)
	if code != 1 || !strings.Contains(errOut, "cannot listen on port "+number) {
		t.Errorf("exit %d, %s", code, errOut)
	}
	code, _, errOut = headroom("", "cluster", "status", "--port", number)
	if code != 1 || !strings.Contains(errOut, "is no cluster") {
		t.Errorf("exit %d, %s", code, errOut)
	}
}

// TestClusterListed: a running cluster is one of the machines, once, and gone after its end.
func TestClusterListed(t *testing.T) {
	isolate(t)
	store, err := openMachines()
	if err != nil {
		t.Fatal(err)
	}
	_, err = listCluster(11821) // it has crashed
	if err != nil {
		t.Fatal(err)
	}
	unlist, err := listCluster(11821)
	if err != nil {
		t.Fatal(err)
	}
	all := store.List()
	if len(all) != 1 || all[0].URL != "http://127.0.0.1:11821/v1" ||
		all[0].Kind != machines.OpenAI {
		t.Errorf("the machines are %+v", all)
	}
	if unlist(); len(store.List()) != 0 {
		t.Errorf("after the end: %+v", store.List())
	}
}

// TestClusterModel finds models by their names.
func TestClusterModel(t *testing.T) {
	isolate(t)
	dir, id, err := clusterModel("headroom-demo")
	if err != nil || id != "headroom-demo" || filepath.Base(dir) != id {
		t.Errorf("%s, %s, %v", dir, id, err)
	}
	if _, _, err := clusterModel("none"); problem.From(err).Code != problem.ModelNotFound {
		t.Errorf("the error is %v", err)
	}
}
