package commands

// One model over several machines: `headroom cluster`. Package cluster says how.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"headroom/app/cluster"
	"headroom/app/machines"
	"headroom/app/memory"
	"headroom/app/power"
	"headroom/app/train"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// Cluster is `headroom cluster`.
type Cluster struct {
	Check   ClusterCheck   `cmd:"" help:"Check machines for a cluster: ssh, Headroom, memory, links, RDMA."`
	Start   ClusterStart   `cmd:"" help:"Run one model over several machines with mlx-lm, until Ctrl-C."`
	Status  ClusterStatus  `cmd:"" help:"Show the state of a cluster that runs on this machine."`
	Node    ClusterNode    `cmd:"" hidden:"" help:"Run the ranks of this machine, for a cluster that has started this."`
	Forward ClusterForward `cmd:"" hidden:"" help:"Connect stdin and stdout to a port of this machine."`
}

// ClusterFlags choose the machines.
type ClusterFlags struct {
	Hostfile string `help:"Host file of mlx.launch: a JSON list of hosts with ssh, ips and rdma. mlx.distributed_config writes one." type:"existingfile" placeholder:"FILE"`
	Backend  string `help:"How the ranks talk: ring (TCP) or jaccl (RDMA over Thunderbolt, which needs a host file). Default: that of the host file, or ring." enum:",ring,jaccl" default:"" placeholder:"NAME"`
	SSH      string `name:"ssh" help:"Command in place of ssh, with its arguments." placeholder:"COMMAND"`
	Program  string `help:"Path of headroom on the other machines. Default: it is looked for." placeholder:"PATH"`
}

// ClusterCheck is `headroom cluster check`.
type ClusterCheck struct {
	Hosts []string `arg:"" optional:"" name:"host" help:"Names for ssh; localhost is this machine."`
	ClusterFlags
	JSON bool `name:"json" help:"Print JSON, for scripts."`
}

// ClusterStart is `headroom cluster start`.
type ClusterStart struct {
	Model string `arg:"" help:"Model to run: a name of the list of models, or a folder. Every machine must have it." placeholder:"NAME_OR_DIR"`
	Hosts string `help:"Machines, by their names for ssh, with commas between; localhost is this machine. The first has rank 0." placeholder:"A,B"`
	Ranks int    `help:"Run this many ranks on this machine alone, for a trial." placeholder:"N"`
	ClusterFlags
	Tensor   bool `help:"Split every layer over the ranks. Default, if mlx-lm can for this model." xor:"mode"`
	Pipeline bool `help:"Give each rank some of the layers." xor:"mode"`
	Port     int  `help:"Port of the endpoint on 127.0.0.1; 0: any free one. Default: 11821." default:"11821" placeholder:"PORT"`
	Yes      bool `help:"Install the Python environment with mlx-lm where it is missing, without asking."`
	Alone    bool `help:"Do not add the cluster to the machines whose models a running Headroom offers too."`
	Verbose  bool `help:"Print what the ranks print."`
}

// ClusterStatus is `headroom cluster status`.
type ClusterStatus struct {
	Port int  `help:"Port of the cluster's endpoint. Default: 11821." default:"11821" placeholder:"PORT"`
	JSON bool `name:"json" help:"Print JSON, for scripts."`
}

// ClusterNode is `headroom cluster node`.
type ClusterNode struct{}

// ClusterForward is `headroom cluster forward`.
type ClusterForward struct {
	Port int `arg:""`
}

// options returns the options that the flags choose. list has names with commas between. choose
// says how machines are named.
func (f *ClusterFlags) options(list string, ranks int, choose string) (o cluster.Options,
	err error) {
	given := 0
	for _, is := range []bool{list != "", f.Hostfile != "", ranks != 0} {
		if is {
			given++
		}
	}
	if given != 1 {
		return o, problem.New(problem.BadRequest, "The machines of the cluster are not clear", "",
			choose)
	}
	o.Backend = f.Backend
	switch {
	case f.Hostfile != "":
		var file cluster.Hostfile
		file, err = cluster.ReadHostfile(f.Hostfile)
		o.Hosts, o.Envs = file.Hosts, file.Envs
		if o.Backend == "" {
			o.Backend = file.Backend
		}
	case ranks != 0:
		o.Hosts, err = cluster.LocalHosts(ranks)
	default:
		o.Hosts, err = cluster.ParseHosts(list)
	}
	if err == nil && o.Backend == cluster.JACCL && f.Hostfile == "" {
		err = problem.New(problem.BadRequest, "The backend jaccl needs a host file",
			"it names the RDMA devices between the machines",
			"Write one: mlx.distributed_config --backend jaccl --hosts A,B --output-hostfile FILE")
	}
	o.Shell = cluster.Shell{SSH: strings.Fields(f.SSH), Remote: f.Program}
	return o, err
}

// Run checks the hosts and prints what each has.
func (c *ClusterCheck) Run(ctx context.Context, t *terminal) error {
	list := strings.Join(c.Hosts, ",")
	if len(c.Hosts) == 1 && !strings.Contains(list, ",") {
		list = "localhost," + list // a link needs two
	}
	o, err := c.options(list, 0, "Name the machines, such as mac2 mac3, or use --hostfile.")
	if err != nil {
		return err
	}
	plan, err := cluster.Check(ctx, o)
	if err == nil && c.Hostfile == "" && allLocal(o.Hosts) {
		err = problem.New(problem.BadRequest, "The hosts of the cluster cannot be used",
			"there is only this machine", "Name another one, or start with --ranks 2 for a trial "+
				"on this machine. A model that fits on one machine needs no cluster.")
	}
	if c.JSON {
		return errors.Join(json.NewEncoder(t.out).Encode(plan), err)
	}
	printMachines(t.out, plan)
	if err == nil {
		fmt.Fprintln(t.out, "These machines can run a cluster over TCP (--backend ring).")
	}
	return err
}

func allLocal(hosts []cluster.Host) bool {
	return !slices.ContainsFunc(hosts, func(h cluster.Host) bool { return !h.Local() })
}

// printMachines says what is known of each machine, and of the links between them.
func printMachines(out io.Writer, plan *cluster.Plan) {
	seen := map[string]bool{}
	for r, name := range plan.Hosts {
		if seen[name] {
			continue
		}
		seen[name] = true
		f := plan.Facts[r]
		fmt.Fprintf(out, "%s: Headroom %s, %s, %s of %s memory available\n", printable(name),
			printable(f.Version), printable(f.System), memory.Text(f.Available),
			memory.Text(f.Total))
		switch {
		case f.Missing != "":
			fmt.Fprintf(out, "  mlx-lm: not installed, and it cannot be: %s\n",
				printable(f.Missing))
		case f.Installed:
			fmt.Fprintln(out, "  mlx-lm: installed")
		default:
			fmt.Fprintf(out, "  mlx-lm: not installed; cluster start installs it with %s\n",
				printable(f.Tools))
		}
		if rdma := f.RDMA; len(rdma.Devices) > 0 {
			fmt.Fprintf(out, "  RDMA: %s\n", printable(strings.Join(rdma.Devices, ", ")))
		} else {
			fmt.Fprintf(out, "  RDMA: off: %s. %s\n", printable(rdma.Why), printable(rdma.Fix))
		}
	}
	for _, l := range plan.Links {
		how := fmt.Sprintf("%.1f ms to connect", l.Ms)
		if l.Ms < 0 {
			how = "not reached"
		}
		fmt.Fprintf(out, "%s to %s at %s: %s\n", printable(l.From), printable(l.To),
			printable(l.Address), how)
	}
}

// Run starts the cluster, and serves its endpoint until ctx ends.
func (c *ClusterStart) Run(ctx context.Context, t *terminal) error {
	o, err := c.options(c.Hosts, c.Ranks, "Use one of --hosts, --hostfile and --ranks.")
	if err != nil {
		return err
	}
	o.Model = c.Model
	if abs, err := filepath.Abs(c.Model); err == nil {
		if info, err := os.Stat(abs); err == nil && info.IsDir() {
			o.Model = abs // the nodes have other working folders
		}
	}
	var config []byte // nil: this machine has no rank, and may not have the model
	if slices.ContainsFunc(o.Hosts, cluster.Host.Local) {
		if config, err = clusterConfig(o.Model); err != nil {
			return err
		}
	}
	switch {
	case c.Tensor:
		o.Mode = cluster.Tensor
	case c.Pipeline:
		o.Mode = cluster.Pipeline
	}
	if o.Mode == cluster.Tensor {
		if err := cluster.CheckTensor(config, c.Model, len(o.Hosts)); err != nil {
			return err
		}
	}
	o.Install = func(hosts []string, facts []*cluster.Facts) error {
		return c.install(ctx, t, hosts)
	}
	o.Log = func(text string) {
		if c.Verbose || !strings.HasPrefix(text, "rank ") {
			fmt.Fprintln(t.err, printable(text))
		}
	}
	listener, err := listenCluster(c.Port)
	if err != nil {
		return err
	}
	defer listener.Close()
	url := "http://" + listener.Addr().String()
	running, plan, err := cluster.New(ctx, o, func(s cluster.Status) { sayState(t.err, s, url) })
	if err != nil {
		return err
	}
	if plan.Mode == cluster.Tensor { // mlx-lm has said that it can
		if err := cluster.CheckTensor(config, plan.Model, len(o.Hosts)); err != nil {
			return err
		}
	}
	for _, s := range plan.Shares {
		fmt.Fprintf(t.err, "%s: %s of weights; needs about %s of %s\n", printable(s.Host),
			memory.Text(s.Weights), memory.Text(s.Need), memory.Text(s.Available))
	}
	fmt.Fprintf(t.err, "Starting %s on %d ranks (%s, %s). Ctrl-C stops it.\n",
		printable(plan.Model), len(plan.Hosts), plan.Mode, plan.Backend)
	if !c.Alone {
		unlist, err := listCluster(listener.Addr().(*net.TCPAddr).Port)
		if err != nil {
			return err
		}
		defer unlist()
	}
	return serveCluster(ctx, listener, running)
}

// listCluster adds the cluster on a port to the other machines, so that a running Headroom offers
// its model too. After a crash it stays there, and the next cluster on the port takes its place.
func listCluster(port int) (unlist func(), err error) {
	store, err := openMachines()
	if err != nil {
		return nil, err
	}
	m := machines.Machine{ID: fmt.Sprintf("cluster-%d", port), Kind: machines.OpenAI,
		Name: fmt.Sprintf("cluster %d", port), URL: fmt.Sprintf("http://127.0.0.1:%d/v1", port)}
	if m, err = store.Add(m, ""); err != nil {
		return nil, err
	}
	return func() { _, _ = store.Remove(m.ID) }, nil // a person may have removed it
}

// serveCluster runs a cluster and its endpoint until ctx ends or the cluster fails.
func serveCluster(ctx context.Context, l net.Listener, c *cluster.Cluster) error {
	web := &http.Server{Handler: c.Handler(), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = web.Serve(l) // until Close
	}()
	err := c.Run(ctx)
	_ = web.Close()
	<-served
	return err
}

// sayState says a change of a cluster's state.
func sayState(out io.Writer, s cluster.Status, url string) {
	switch s.State {
	case cluster.Ready:
		fmt.Fprintf(out, "Ready. The endpoint is %s/v1, and the model is %s.\n", url,
			printable(s.Model))
	case cluster.Restarting:
		fmt.Fprintf(out, "%s Starting again.\n", sentence(printable(s.Error)))
	}
}

// sentence returns a text with a full stop at its end.
func sentence(text string) string {
	if strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// install asks before the environment is installed on hosts.
func (c *ClusterStart) install(ctx context.Context, t *terminal, hosts []string) error {
	fmt.Fprintf(t.err, "A cluster needs a Python environment with %s. It is missing on: %s. "+
		"Headroom makes one of its own there, once: about %d MB, from %s. Versions are pinned, "+
		"and files are checked by their hashes.\n", train.Packages,
		printable(strings.Join(hosts, ", ")), train.DiskBytes>>20, train.Source)
	if c.Yes {
		return nil
	}
	if !canAsk(t) {
		return problem.New(problem.BadRequest, "The cluster was not started",
			"the Python environment is not installed", "Add --yes to install it.")
	}
	yes, err := askYes(ctx, t, "Install it?", true)
	if err == nil && !yes {
		err = exitProblem // nobody needs to hear that
	}
	return err
}

func listenCluster(port int) (net.Listener, error) {
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, problem.Wrap(problem.PortTaken, err,
			fmt.Sprintf("The cluster cannot listen on port %d", port),
			"Choose another port with --port, or --port 0 for any free one.")
	}
	return l, nil
}

// Run asks a running cluster for its state.
func (c *ClusterStatus) Run(ctx context.Context, t *terminal) error {
	s, err := clusterStatus(ctx, c.Port)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(t.out).Encode(s)
	}
	fmt.Fprintf(t.out, "%s: %s for %s, %s and %s\n", printable(s.Model), s.State,
		time.Since(s.Since).Round(time.Second), s.Mode, s.Backend)
	for r, name := range s.Hosts {
		held := "not loaded"
		if r < len(s.Memory) && s.Memory[r] > 0 {
			held = memory.Text(s.Memory[r]) + " of weights"
		}
		fmt.Fprintf(t.out, "  rank %d on %s: %s\n", r, printable(name), held)
	}
	fmt.Fprintf(t.out, "  %s running, %s\n", count(s.Requests, "request"),
		count(s.Starts, "start"))
	if s.Error != "" {
		fmt.Fprintf(t.out, "  last failure: %s\n", printable(s.Error))
	}
	return nil
}

// clusterStatus asks the cluster on a port of this machine. The error is a Problem.
func clusterStatus(ctx context.Context, port int) (s cluster.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("http://127.0.0.1:%d/api/cluster", port), nil)
	if err != nil {
		return s, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return s, problem.New(problem.NotRunning, fmt.Sprintf("No cluster runs on port %d", port),
			"", "Start one with headroom cluster start, or name its port with --port.")
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK ||
		json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&s) != nil || s.State == "" {
		return s, problem.New(problem.PortTaken,
			fmt.Sprintf("What listens on port %d is no cluster", port), "",
			"Name the cluster's port with --port.")
	}
	return s, nil
}

// Run serves one cluster over stdin and stdout.
func (c *ClusterNode) Run(ctx context.Context, t *terminal) error {
	awake := power.New()
	defer awake.Close()
	node := cluster.Node{Environment: train.DefaultEnvironment(), Model: clusterModel,
		Awake: awake.Begin}
	return node.Serve(ctx, t.in, t.out)
}

// clusterModel returns the folder and the ID of a model on this machine.
func clusterModel(name string) (dir, id string, err error) {
	m, err := resolveAlone(nil, name, "a cluster runs a model alone", "")
	if err != nil {
		return "", "", err
	}
	if dir = m.Source.Dir; m.Bundled {
		dir, err = train.DefaultEnvironment().Bundled()
	}
	return dir, m.ID, err
}

// clusterConfig returns the config.json of a model on this machine.
func clusterConfig(name string) ([]byte, error) {
	m, err := resolveAlone(nil, name, "a cluster runs a model alone", "")
	if err != nil {
		return nil, sayDownload(err, name)
	}
	files := m.Source.FS
	if files == nil {
		files = os.DirFS(m.Source.Dir)
	}
	config, err := modelfile.ReadFS(files, "config.json")
	if err != nil {
		return nil, problem.Wrap(problem.ModelBroken, err, "The model cannot be read", "")
	}
	return config, nil
}

// Run connects stdin and stdout to a port.
func (c *ClusterForward) Run(ctx context.Context, t *terminal) error {
	return cluster.Forward(ctx, c.Port, t.in, t.out)
}
