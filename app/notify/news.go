package notify

// What is news: the difference between two looks at jobs, models and engine. Each thing is said
// once, and what a person did herself (stopping a job, unloading a model) is none.

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
	"headroom/engine/problem"
)

// look is what there is to see at one moment.
type look struct {
	jobs    []jobs.Job
	changes []host.ModelChange // since the look before
	state   host.State
	models  func() host.ModelList // asked for only where something has ended
	rescan  func()                // has that list read from the disk
}

// news remembers what was seen. The zero value has seen nothing.
type news struct {
	ended  map[string]end // of jobs, by ID
	engine host.EngineState
}

// end is one of a job, which may be resumed and end again.
type end struct {
	state     jobs.State
	startedAt time.Time
}

// first sees what there is without a word.
func (n *news) first(l look) { n.since(l) }

// since is what is worth saying after the last look.
func (n *news) since(l look) []Notice {
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
		switch j.State {
		case jobs.Done:
			notices = append(notices, arrived(l, j.Title, j.Result, doneWord[j.Kind]))
		case jobs.Failed:
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
	return notices
}

var doneWord = map[jobs.Kind]string{jobs.Download: "is downloaded", jobs.Import: "is imported"}

// downloadsHere tells whether a model comes by a download of ours, whose own end is the news.
func downloadsHere(list []jobs.Job, id string) bool {
	return slices.ContainsFunc(list, func(j jobs.Job) bool {
		return j.Kind == jobs.Download && strings.EqualFold(j.Title, id) &&
			(!j.State.Ended() || j.State == jobs.Done)
	})
}

// arrived is about a model that can be started now, or about why it cannot. A job may end before
// the list shows what came of it: then the disk is asked.
func arrived(l look, id, dir, word string) Notice {
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
		if dir == "" { // gone again
			n.Label, n.Hint = openLabel, openHint
		}
		return n
	}
	m := list.Models[i]
	n.Start = m.ID
	switch {
	case m.Error != "":
		n.Body, n.Start, n.Label,
			n.Hint = "It cannot be started: "+strings.TrimSuffix(clean(m.Error), ".")+".", "",
			openLabel, openHint
	case m.Fits == memory.No:
		n.Body = fmt.Sprintf("It needs %s, there is room for %s.", gigabytes(m.NeedBytes),
			gigabytes(list.RoomBytes))
		n.Start, n.Label, n.Hint = "", openLabel, openHint
	default:
		n.Body = fmt.Sprintf("It needs %s, there is room for %s.", gigabytes(m.NeedBytes),
			gigabytes(list.RoomBytes))
	}
	return n
}

const (
	openLabel = "Open Headroom"
	openHint  = "Click to open Headroom."
)

func failedJob(j jobs.Job) Notice {
	words := map[jobs.Kind]string{jobs.Download: "could not be downloaded",
		jobs.Import: "could not be imported"}
	return Notice{Key: "model " + j.Title, Title: clean(j.Title) + " " + words[j.Kind],
		Body: explain(problem.From(j.Err)), Label: openLabel, Hint: openHint}
}

// engineNews is about an engine that failed, or that goes on otherwise than it should.
func engineNews(before, now host.EngineState) []Notice {
	said := func(e, earlier *host.Error) bool {
		return e == nil || earlier != nil &&
			*e == *earlier
	}
	var notices []Notice
	if now.Status == host.Failed &&
		!(before.Status == host.Failed && said(now.Error, before.Error)) && now.Error != nil {
		notices = append(notices,
			Notice{Key: "engine", Title: clean(now.Model) + " did not start",
				Body: explainError(now.Error), Label: openLabel, Hint: openHint})
	}
	if !said(now.Notice, before.Notice) {
		notices = append(notices,
			Notice{Key: "notice", Title: clean(now.Notice.Message), Body: explainError(now.Notice),
				Label: openLabel, Hint: openHint})
	}
	return notices
}

// explain is why, and what to do.
func explain(p *problem.Problem) string {
	return explainError(host.NewError(p))
}

func explainError(e *host.Error) string {
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

// mostRunes keeps a text that came from a file or a server from filling the screen.
const mostRunes = 200

// clean is a text that may come from a file's name: line breaks and other control characters become
// spaces.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
	if runes := []rune(text); len(runes) > mostRunes {
		return string(runes[:mostRunes-1]) + "…"
	}
	return text
}

// gigabytes are of 2^30 bytes, as the system's own monitor counts memory.
func gigabytes(bytes int64) string { return fmt.Sprintf("%.1f GB", float64(max(bytes, 0))/(1<<30)) }
