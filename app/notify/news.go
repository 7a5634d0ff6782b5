package notify

// The news: differences between two snapshots of jobs, models and engine that the user should hear
// of. Each is reported once. The user's actions, such as stopping a job, are not reported.

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"headroom/app/host"
	"headroom/app/jobs"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/places"
	"headroom/app/update"
	"headroom/engine/problem"
)

// snapshot is the state of host and jobs at one time.
type snapshot struct {
	jobs    []jobs.Job
	changes []host.ModelChange // since the previous snapshot
	state   host.State
	update  update.Known
	models  func() host.ModelList // called only when a job or download has ended
	rescan  func()                // scans the model folders
}

// news finds out what to report. It stores what has been reported. The zero value has reported
// nothing.
type news struct {
	ended  map[string]end // ended jobs, by ID
	engine host.EngineState
	short  memory.Level // of the last advice, while memory is short; "": it is not
	update update.Known
}

// end says how a job ended, and when it was started, because it may be resumed and end again.
type end struct {
	state     jobs.State
	startedAt time.Time
}

// first stores a snapshot without reporting anything.
func (n *news) first(l snapshot) { n.since(l) }

// since returns notices about the changes since the last snapshot.
func (n *news) since(l snapshot) []Notice {
	var notices []Notice
	ended := map[string]end{}
	for _, j := range l.jobs {
		if !j.State.Ended() {
			continue
		}
		ended[j.ID] = end{j.State, j.StartedAt}
		if n.ended[j.ID] == ended[j.ID] {
			continue
		}
		switch {
		case j.State == jobs.Done && j.Kind == jobs.Training:
			notices = append(notices, trained(j))
		case j.State == jobs.Done:
			notices = append(notices, arrived(l, j.Title, j.Result, doneWord[j.Kind]))
		case j.State == jobs.Failed:
			notices = append(notices, failedJob(j))
		}
	}
	n.ended = ended
	for _, c := range l.changes {
		if c.Kind == library.Finished && !downloadsHere(l.jobs, c.ID) {
			notices = append(notices, arrived(l, c.ID, "", "is complete"))
		}
	}
	notices = append(notices, engineNews(n.engine, l.state.Engine)...)
	n.engine = l.state.Engine
	notices = append(notices, n.pressureNews(l.state.Pressure)...)
	notices = append(notices, n.updateNews(l.update)...)
	return notices
}

// pressureNews returns a notice when memory gets short, or shorter, and something could be
// unloaded. Without anything to unload, Headroom is not what takes the memory.
func (n *news) pressureNews(p host.PressureState) []Notice {
	was := n.short
	if !p.Level.Short() {
		n.short = ""
		return nil
	}
	if len(p.Advice) == 0 || was == p.Level || was == memory.Critical {
		return nil
	}
	n.short = p.Level
	title := "Memory is short"
	if p.Level == memory.Critical {
		title = "Memory is very short"
	}
	a := p.Advice[0]
	return []Notice{{Key: "pressure", Title: title, Place: places.Memory,
		Body: fmt.Sprintf("Unloading %s would free %s.", clean(a.Model),
			memory.Text(a.FreesBytes)), Label: openLabel, Hint: openHint}}
}

// updateNews returns a notice about a version that was not known before, or that is ready now.
func (n *news) updateNews(u update.Known) []Notice {
	was := n.update
	n.update = u
	if u.Version == "" || u == was || !u.Ready && u.Version == was.Version {
		return nil
	}
	notice := Notice{Key: "update", Title: "Headroom " + clean(u.Version) + " is available",
		Body: "Settings has what is new in it.", Label: openLabel, Hint: openHint,
		Place: places.Settings}
	if u.Ready {
		notice.Title = "Headroom " + clean(u.Version) + " is ready"
		notice.Body = "It is installed when Headroom quits."
	}
	return []Notice{notice}
}

var doneWord = map[jobs.Kind]string{jobs.Download: "is downloaded", jobs.Import: "is imported"}

// downloadsHere reports whether one of Headroom's jobs downloads the model. The end of the job is
// reported then, and not the change of the list.
func downloadsHere(list []jobs.Job, id string) bool {
	return slices.ContainsFunc(list, func(j jobs.Job) bool {
		return j.Kind == jobs.Download && strings.EqualFold(j.Title, id) &&
			(!j.State.Ended() || j.State == jobs.Done)
	})
}

// arrived returns the notice about a new model: it can be started, or why it cannot. dir is the
// model's folder, "" if a change of the list reported it. A job may end before the list has its
// model; then the folders are scanned.
func arrived(l snapshot, id, dir, word string) Notice {
	n := Notice{Key: "model " + id, Title: clean(id) + " " + word,
		Body: "It runs on this computer.", Label: "Start", Hint: "Click to start it.", Start: dir}
	list := l.models()
	find := func() int {
		return slices.IndexFunc(list.Models, func(m host.Model) bool {
			return dir == "" && m.ID == id ||
				slices.ContainsFunc(m.Places, func(p host.Place) bool { return p.Path == dir })
		})
	}
	i := find()
	if dir != "" && (i < 0 || list.Models[i].State != library.Ready) {
		l.rescan()
		list = l.models()
		i = find()
	}
	if i < 0 {
		if dir == "" { // removed meanwhile
			n.Label, n.Hint = openLabel, openHint
		}
		return n
	}
	m := list.Models[i]
	n.Start = m.ID
	switch {
	case m.Error != "":
		n.Body = "It cannot be started: " + strings.TrimSuffix(clean(m.Error), ".") + "."
		n.Start, n.Label, n.Hint = "", openLabel, openHint
	default:
		n.Body = fmt.Sprintf("It needs %s, %s is available.", memory.Text(m.NeedBytes),
			memory.Text(list.RoomBytes))
		if m.Fits == memory.No {
			n.Start, n.Label, n.Hint = "", openLabel, openHint
		}
	}
	return n
}

// trained returns the notice about a training that has ended.
func trained(j jobs.Job) Notice {
	return Notice{Key: "training " + j.Title, Title: clean(j.Title) + " is trained",
		Body: "The adapter is beside your models.", Label: openLabel, Hint: openHint,
		Place: places.Adapt}
}

const (
	openLabel = "Open Headroom"
	openHint  = "Click to open Headroom."
)

func failedJob(j jobs.Job) Notice {
	words := map[jobs.Kind]string{jobs.Download: "could not be downloaded",
		jobs.Import: "could not be imported", jobs.Training: "could not be trained"}
	n := Notice{Key: "model " + j.Title, Title: clean(j.Title) + " " + words[j.Kind],
		Body: explain(host.NewError(problem.From(j.Err))), Label: openLabel, Hint: openHint}
	if j.Kind == jobs.Training {
		n.Place = places.Adapt
	}
	return n
}

// engineNews returns notices about an engine that failed, or whose state has a new warning.
func engineNews(before, now host.EngineState) []Notice {
	same := func(a, b *host.Error) bool { return a != nil && b != nil && *a == *b }
	var notices []Notice
	wasReported := before.Status == host.Failed && same(now.Error, before.Error)
	if now.Status == host.Failed && now.Error != nil && !wasReported {
		notices = append(notices,
			Notice{Key: "engine", Title: clean(now.Model) + " did not start",
				Body: explain(now.Error), Label: openLabel, Hint: openHint})
	}
	if now.Notice != nil && !same(now.Notice, before.Notice) {
		notices = append(notices,
			Notice{Key: "notice", Title: clean(now.Notice.Message), Body: explain(now.Notice),
				Label: openLabel, Hint: openHint})
	}
	return notices
}

// explain returns why the problem occurred and what to do, or its message if neither is known.
func explain(e *host.Error) string {
	var parts []string
	for _, text := range []string{e.Why, e.Fix} {
		if text = clean(strings.TrimSpace(text)); text != "" {
			first, size := utf8.DecodeRuneInString(text)
			parts = append(parts, string(unicode.ToUpper(first))+strings.TrimSuffix(text[size:],
				".")+".")
		}
	}
	if len(parts) == 0 {
		return clean(e.Message)
	}
	return strings.Join(parts, " ")
}

// maxRunes limits a text that came from a file or a server.
const maxRunes = 200

// clean replaces control characters, which a file name may contain, with spaces, and shortens text
// to maxRunes.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
	if runes := []rune(text); len(runes) > maxRunes {
		return string(runes[:maxRunes-1]) + "…"
	}
	return text
}
