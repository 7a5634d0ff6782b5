package cluster

// The plan of a cluster: machines, links, model and memory, checked before a rank starts.

import (
	"context"
	"fmt"
	"strings"

	"headroom/engine/problem"
)

// Options choose hosts, model and how it is split. Hosts and Model are required to start.
type Options struct {
	Hosts   []Host
	Envs    []string // of the host file
	Model   string   // a name of the list of models, or a folder; the same on all machines
	Backend string   // Ring or JACCL; "": Ring
	Mode    string   // Tensor or Pipeline; "": Tensor if the model can, else Pipeline
	Shell   Shell

	// Install is asked before the Python environment is installed on hosts. nil: it is not.
	Install func(hosts []string, facts []*Facts) error
	// Log gets lines for a person and from the ranks. It may be nil.
	Log func(text string)
}

func (o *Options) log(format string, values ...any) {
	if o.Log != nil {
		o.Log(fmt.Sprintf(format, values...))
	}
}

// Plan is what a cluster would do.
type Plan struct {
	Backend string   `json:"backend"`
	Mode    string   `json:"mode,omitempty"`  // "": without a model
	Model   string   `json:"model,omitempty"` // ID
	Hosts   []string `json:"hosts"`           // by rank
	IPs     []string `json:"ips"`             // by rank
	Facts   []*Facts `json:"facts"`           // by rank
	Links   []Link   `json:"links"`
	Shares  []Share  `json:"shares,omitempty"` // by machine

	dirs []string // of the model, by rank
}

// Check connects to the hosts and plans. Without a model it checks only hosts and links. Of the
// Plan, there is as much as was found before an error. The error is a Problem, or ctx's.
func Check(ctx context.Context, o Options) (*Plan, error) {
	p, plan, err := o.prepare(ctx)
	if p != nil {
		p.close()
	}
	return plan, err
}

// prepare connects and plans. The caller closes the peers, if there are any.
func (o *Options) prepare(ctx context.Context) (*peers, *Plan, error) {
	if o.Backend == "" {
		o.Backend = Ring
	}
	if err := o.check(); err != nil {
		return nil, &Plan{}, err
	}
	p, err := connectAll(ctx, o.Shell, o.Hosts)
	if err != nil {
		return nil, &Plan{}, err
	}
	plan := &Plan{Backend: o.Backend, Facts: p.facts}
	for _, h := range o.Hosts {
		plan.Hosts = append(plan.Hosts, h.String())
	}
	if plan.IPs, plan.Links, err = p.chooseIPs(ctx); err == nil && o.Backend == JACCL {
		err = p.checkRDMA()
	}
	if err == nil && o.Model != "" {
		err = o.prepareModel(ctx, p, plan)
	}
	return p, plan, err
}

// check checks what is known without the hosts.
func (o *Options) check() error {
	if len(o.Hosts) == 1 && o.Model == "" {
		return checkHost(o.Hosts[0]) // `check` of one machine
	}
	if err := checkHosts(o.Hosts); err != nil {
		return err
	}
	switch o.Backend {
	case Ring:
		return nil
	case JACCL:
		return checkRDMA(o.Hosts)
	}
	return badHosts("the backend is %q", "Use ring or jaccl.", o.Backend)
}

// checkRDMA refuses machines without RDMA. The error is a Problem.
func (p *peers) checkRDMA() error {
	for _, r := range p.machines() {
		if rdma := p.facts[r].RDMA; len(rdma.Devices) == 0 {
			return notStarted(problem.BadRequest, rdma.Fix,
				"the backend jaccl needs RDMA on %s: %s", p.hosts[r], rdma.Why)
		}
	}
	return nil
}

func (o *Options) prepareModel(ctx context.Context, p *peers, plan *Plan) error {
	if err := o.install(ctx, p); err != nil {
		return err
	}
	found := make([]*Found, len(p.hosts))
	if err := p.each(func(r int) error {
		answer, err := p.nodes[r].call(ctx, request{Op: opModel, Model: o.Model}, nil)
		if err != nil {
			return onHost(p.hosts[r], err)
		}
		for other, n := range p.nodes {
			if n == p.nodes[r] {
				found[other] = answer.Found
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for r, f := range found {
		if f.Digest != found[0].Digest {
			return notStarted(problem.ModelBroken,
				"Delete it on one of them and download it again.",
				"the files of %s on %s are not those on %s", o.Model, p.hosts[r], p.hosts[0])
		}
		plan.dirs = append(plan.dirs, f.Dir)
	}
	plan.Model = found[0].ID
	answer, err := p.nodes[0].call(ctx, request{Op: opProbe, Dir: plan.dirs[0]}, nil)
	if err != nil {
		why := problem.From(err).Why
		return notStarted(problem.UnknownArchitecture, "Choose another model.",
			"mlx-lm cannot read %s: %s", plan.Model, why)
	}
	return o.split(p, plan, *answer.Parts)
}

// split decides how the model is split, and whether that fits.
func (o *Options) split(p *peers, plan *Plan, parts Parts) (err error) {
	if plan.Mode, err = parts.mode(o.Mode, plan.Model); err != nil {
		return err
	}
	if n := len(parts.Layers); plan.Mode == Pipeline && n < len(p.hosts) {
		return notStarted(problem.BadRequest, "Use fewer machines.",
			"%s has %d layers for %d ranks", plan.Model, n, len(p.hosts))
	}
	available := make([]int64, len(p.hosts))
	for r, f := range p.facts {
		available[r] = f.Available
	}
	plan.Shares = shares(parts.weights(plan.Mode, len(p.hosts)), plan.Hosts, available)
	return fits(plan.Shares)
}

// install installs the environment on the hosts that lack it.
func (o *Options) install(ctx context.Context, p *peers) error {
	var names []string
	var missing []int
	var facts []*Facts
	for _, r := range p.machines() {
		if !p.facts[r].Installed {
			names, facts = append(names, p.hosts[r].String()), append(facts, p.facts[r])
			missing = append(missing, r)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	for i, f := range facts {
		if f.Missing != "" {
			return notStarted(problem.LowResources, "", "on %s: %s", names[i], f.Missing)
		}
	}
	if o.Install == nil {
		return notStarted(problem.NotFound, "Add --yes to install it.",
			"the Python environment with mlx-lm is not installed on %s", strings.Join(names, ", "))
	}
	if err := o.Install(names, facts); err != nil {
		return err
	}
	return p.each(func(r int) error {
		if p.facts[r].Installed {
			return nil
		}
		_, err := p.nodes[r].call(ctx, request{Op: opInstall}, func(answer *reply) {
			o.log("%s: %s", p.hosts[r], answer.Line)
		})
		if err == nil {
			p.facts[r].Installed = true
		}
		return onHost(p.hosts[r], err)
	})
}

// onHost adds to a Problem on which host it is.
func onHost(h Host, err error) error {
	if err == nil || h.Local() {
		return err
	}
	said := *problem.From(err)
	said.Message = "On " + h.String() + ": " + said.Message
	return &said
}
