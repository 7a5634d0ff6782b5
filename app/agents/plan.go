package agents

// Plans: what a file would be, and how that is shown. A plan names the file that it was made from,
// so that Write refuses one that has changed since it was shown.

import (
	"bytes"
	"fmt"
	"strings"

	"headroom/engine/problem"
)

// Plan is what would be written or taken back.
type Plan struct {
	// Path is the configuration file, with ~ for the home folder; "": there is none to write.
	Path string `json:"path"`
	// LeadsTo is the file that links in the path lead to; "": there are none.
	LeadsTo string `json:"leadsTo"`
	Creates bool   `json:"creates"` // the file does not exist
	Deletes bool   `json:"deletes"` // the file is removed, because it was not there before
	Lines   []Line `json:"lines"`   // none: nothing changes
	// NewKey is the name of the API key that is made, "" for none. Its text is not known yet.
	NewKey string   `json:"newKey"`
	Notes  []string `json:"notes"` // sentences about what is special
	Steps  []string `json:"steps"` // sentences about what is left to do
	Token  string   `json:"token"` // names this plan for Write and Undo
}

// planned is a plan with the bytes behind it.
type planned struct {
	Plan
	file   configFile
	base   []byte // without what was written before
	exists bool   // with base
	after  []byte
	edits  []written
}

// newKeyText stands for the text of a key that is not made yet.
const newKeyText = "hr-(the new key)"

// masked hides the text of a key, but for its first characters.
func masked(text, key string) string {
	if len(key) < 12 || key == newKeyText {
		return text
	}
	return strings.ReplaceAll(text, key, key[:8]+"…")
}

// plan returns what Write would do with this key. r is the agent's record.
func (s *Store) plan(a *agent, t Target, r record, key string) (planned, error) {
	p := planned{Plan: Plan{Lines: []Line{}, Notes: []string{}, Steps: []string{}}}
	if a.steps != nil {
		p.Steps = append(p.Steps, a.steps(t, key)...)
	}
	p.Notes = append(p.Notes, a.warnings(t, s.env)...)
	if a.format == nil {
		p.Token = hashOf(encodeJSON(t))
		return p, nil
	}
	var err error
	if p.file, err = s.env.readConfig(a.file(s.env)); err != nil {
		return p, err
	}
	if r.Path != "" && r.Path != p.file.path { // the record has one file
		return p, problem.New(problem.Exists, a.name+" is set up in "+s.env.short(r.Path),
			"its configuration is in "+s.env.short(p.file.path)+" now", "Undo that first.")
	}
	if a.check != nil {
		if err := a.check(p.file); err != nil {
			return p, err
		}
	}
	if p.base, p.exists, _, err = r.base(a.format, p.file); err == nil {
		p.after, p.edits, err = apply(a.format, p.base, a.edits(t, key))
	}
	if err != nil {
		return p, s.notEditable(p.file, err)
	}
	p.Creates = !p.file.exists
	s.describe(&p, r, key)
	p.Token = hashOf(fmt.Appendf(nil, "write\n%v\n%s\n%s\n%s", p.file.exists, p.file.target,
		hashOf(p.file.text), encodeJSON(t)))
	return p, nil
}

// undoPlan returns what Undo would do.
func (s *Store) undoPlan(a *agent, r record) (planned, error) {
	p := planned{Plan: Plan{Lines: []Line{}, Notes: []string{}, Steps: []string{}}}
	key := s.keyName(r)
	if r.Path == "" && key == "" {
		return p, problem.New(problem.NotFound, "Nothing of "+a.name+" is to be undone",
			"Headroom has written nothing for it", "")
	}
	if key != "" {
		p.Notes = append(p.Notes, "The API key “"+key+"” is removed. Requests with it end.")
	}
	if r.Path == "" {
		p.Token = hashOf([]byte("undo\n" + r.KeyID))
		return p, nil
	}
	var err error
	if p.file, err = s.env.readConfig(r.Path); err != nil {
		return p, err
	}
	var kept []string
	if p.base, p.exists, kept, err = r.base(a.format, p.file); err != nil {
		return p, s.notEditable(p.file, err)
	}
	p.after = p.base
	p.Deletes = p.file.exists && !p.exists
	s.describe(&p, r, r.Key)
	switch {
	case !p.file.exists:
		p.Notes = append(p.Notes, "The file is gone, so nothing is left to take back.")
	case hashOf(p.file.text) != r.After || p.file.target != r.Target:
		p.Notes = append(p.Notes, "The file has changed since Headroom wrote it. Only what "+
			"Headroom wrote is taken back; your changes stay.")
	case p.exists:
		p.Notes = append(p.Notes, "The file will be as it was before, byte for byte.")
	}
	if len(kept) > 0 {
		p.Notes = append(p.Notes, "These values are no longer as Headroom wrote them, and stay: "+
			joined(kept)+".")
	}
	p.Token = hashOf(fmt.Appendf(nil, "undo\n%v\n%s\n%s\n%s", p.file.exists, p.file.target,
		hashOf(p.file.text), r.After))
	return p, nil
}

// describe fills in what is shown of a change of a file. key is the one that is in the file after
// it, or was.
func (s *Store) describe(p *planned, r record, key string) {
	p.Path = s.env.short(p.file.path)
	p.Lines = append(p.Lines, difference(string(p.file.text), string(p.after))...)
	for i := range p.Lines {
		p.Lines[i].Text = masked(masked(p.Lines[i].Text, key), r.Key)
	}
	if p.file.linked(s.env) {
		p.LeadsTo = s.env.short(p.file.target)
	}
	if p.file.outside {
		p.Notes = append(p.Notes, "The path is a link that leads out of your home folder, to "+
			p.file.target+". That file is changed, and the link stays.")
	}
	if strings.HasPrefix(key, "hr-") && p.file.exists && p.file.mode&0o044 != 0 &&
		bytes.Contains(p.after, []byte(key)) {
		p.Notes = append(p.Notes, "Other users of this computer can read this file, and the API "+
			"key in it.")
	}
}

// notEditable returns the Problem of a file that cannot be edited.
func (s *Store) notEditable(f configFile, err error) error {
	return problem.Wrap(problem.BadRequest, err, s.env.short(f.path)+" cannot be changed",
		"Correct the file in an editor. Headroom has not changed it.")
}

func quoted(text string) string { return fmt.Sprintf("%q", text) }

// joined returns "a, b and c".
func joined(list []string) string {
	if n := len(list); n > 1 {
		return strings.Join(list[:n-1], ", ") + " and " + list[n-1]
	}
	return strings.Join(list, "")
}
