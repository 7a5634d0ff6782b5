package tray

// The texts of the menu. Rows are narrow, and they change while the menu is open. So texts are
// short, numbers have few digits, and names from files are shortened and cleaned.

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"headroom/app/cache"
	"headroom/app/host"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/power"
	"headroom/app/update"
)

// stateLine returns the text of the first row. The tooltip repeats it.
func stateLine(s State) string {
	e := s.Engine
	name := shorten(e.Model, 40)
	if n := loadedBeside(s); n > 0 {
		name = shorten(e.Model, 30) + fmt.Sprintf(" and %d more", n)
	}
	if e.Status == host.Ready && overall(s) == host.Busy {
		e.Status = host.Busy
	}
	switch e.Status {
	case host.Loading:
		return fmt.Sprintf("Loading %s, %.0f %%", name, 100*e.Progress)
	case host.Ready:
		return "Ready, " + name
	case host.Busy:
		return "Answering, " + name + speed(s.Speed.DecodeTokensPerSecond)
	case host.Failed:
		if e.RetryAtUnixMs > 0 {
			return "Loading " + name + " again at " +
				time.UnixMilli(e.RetryAtUnixMs).Format(time.TimeOnly)
		}
		return name + " did not start"
	case host.IdleUnloaded:
		return "Unloaded, " + name
	}
	return "Stopped"
}

// overall returns the status that the icon shows: that of the model in front, but busy if any model
// is.
func overall(s State) host.Status {
	ready := s.Engine.Status == host.Ready || s.Engine.Status == host.IdleUnloaded
	for _, e := range s.Engines {
		if e.Status == host.Busy && ready {
			return host.Busy
		}
	}
	return s.Engine.Status
}

// speed returns a decode speed after a comma, "" if it is 0.
func speed(v float64) string {
	switch {
	case v >= 99.95:
		return fmt.Sprintf(", %.0f tok/s", v)
	case v >= 0.05:
		return fmt.Sprintf(", %.1f tok/s", v)
	}
	return ""
}

// drafts returns how much decoding ahead has yielded since the model was loaded, with the figures
// that the Cache page has for one request. If something drafts for the model, it says also that
// nothing was drafted in the last minutes. Otherwise it is "" while nothing was drafted.
func drafts(e host.EngineState) string {
	switch {
	case e.Status != host.Ready && e.Status != host.Busy:
		return ""
	case e.Drafter != "" && e.NoDrafts != "":
		return "Nothing decoded ahead lately"
	case e.DraftTokens <= 0:
		return ""
	}
	accepted := min(e.AcceptedTokens, e.DraftTokens)
	// Each pass yields the token after its accepted drafts.
	passes := max(1, e.GeneratedTokens-accepted)
	text := fmt.Sprintf("Decoded ahead: %d %% accepted, %.1f tokens a pass",
		100*accepted/e.DraftTokens, float64(e.GeneratedTokens)/float64(passes))
	if e.Speedup > 0 {
		text += fmt.Sprintf(", %.2fx", e.Speedup)
	}
	return text
}

func draftsTooltip(e host.EngineState) string {
	var texts []string
	if e.Drafter != "" && e.NoDrafts != "" {
		texts = append(texts, e.NoDrafts)
	}
	if e.DraftTokens > 0 {
		texts = append(texts, fmt.Sprintf("The model accepted %d of %s since it was loaded.",
			e.AcceptedTokens, plural(int(e.DraftTokens), "draft")))
	}
	if e.DraftTokens > 0 && e.Speedup > 0 {
		texts = append(texts,
			fmt.Sprintf("Decoding was about %.2f times as fast as without drafts.", e.Speedup))
	}
	return strings.Join(texts, " ")
}

// measures returns the power measures as one text.
func measures(list []power.Measure) string {
	var texts []string
	for _, m := range list {
		texts = append(texts, m.Text)
	}
	return strings.Join(texts, " ")
}

// available returns the memory that is available for a model, as text.
func available(l memory.Ledger) string {
	switch {
	case l.TotalBytes <= 0:
		return "Available memory unknown"
	case l.HeadroomBytes < leastAvailableBytes:
		return "No memory available for a model"
	}
	return memory.Text(l.HeadroomBytes) + " available for a model"
}

// pressure returns how short memory is, and which model to unload.
func pressure(p host.PressureState) string {
	text := "Memory is short"
	if p.Level == memory.Critical {
		text = "Memory is very short"
	}
	if len(p.Advice) > 0 {
		a := p.Advice[0]
		text += fmt.Sprintf(": %s holds %s", shorten(a.Model, 30), memory.Text(a.FreesBytes))
	}
	return text
}

// updateLine returns the text of the row of an update.
func updateLine(u update.Known) string {
	version := "Headroom " + shorten(u.Version, 20)
	if u.Ready {
		return version + " is installed on Quit"
	}
	return version + " is available"
}

// The parts of the memory bar, in the order of the window's.
const (
	barHeadroom = "█"
	barOther    = "▒"
	barFree     = "░"
	barCells    = 12
)

// memoryBar returns the memory bar as text, "" if the memory is not known. What is used has a cell
// at least, so that it is seen.
func memoryBar(l memory.Ledger) string {
	if l.TotalBytes <= 0 || len(l.Segments) == 0 {
		return ""
	}
	own, other, _ := memoryParts(l)
	cells := func(bytes int64) int {
		n := int((bytes*barCells + l.TotalBytes/2) / l.TotalBytes)
		if bytes >= leastAvailableBytes {
			n = max(n, 1)
		}
		return n
	}
	mine := min(cells(own), barCells)
	theirs := min(cells(other), barCells-mine)
	return strings.Repeat(barHeadroom, mine) + strings.Repeat(barOther, theirs) +
		strings.Repeat(barFree, barCells-mine-theirs)
}

// memoryParts returns what Headroom and what other apps use, and what is free.
func memoryParts(l memory.Ledger) (own, other, free int64) {
	for _, s := range l.Segments {
		switch s.Kind {
		case memory.Other:
			other += s.Bytes
		case memory.Free:
			free += s.Bytes
		case memory.Reserved: // promised, but in use by nobody: part of what is free
		default:
			own += s.Bytes
		}
	}
	return own, other, free
}

func memoryTooltip(l memory.Ledger) string {
	text := "The memory that is available for a model beside those that are loaded. " +
		"1 GB = 2^30 bytes."
	if memoryBar(l) == "" {
		return text
	}
	own, other, free := memoryParts(l)
	return fmt.Sprintf("%s Headroom %s, %s other apps %s, %s free %s. %s", barHeadroom,
		memory.Text(own), barOther, memory.Text(other), barFree, memory.Text(free), text)
}

// downloadLine returns the text of the row of the downloads.
func downloadLine(list []Download) string {
	if len(list) == 0 {
		return ""
	}
	var done, total int64
	left := list[0].Left
	for _, d := range list {
		if d.TotalBytes <= 0 {
			done, total = 0, 0
			break
		}
		done, total = done+d.DoneBytes, total+d.TotalBytes
	}
	text := "Downloading " + shorten(list[0].Title, 36)
	if len(list) > 1 {
		text, left = plural(len(list), "download"), -1
	}
	if total > 0 {
		text += fmt.Sprintf(", %d %%", min(100*done/total, 99))
	}
	if left >= 0 {
		text += ", " + timeLeft(left)
	}
	return text
}

// timeLeft returns a duration in whole minutes, so that the row seldom changes.
func timeLeft(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "under 1 min left"
	case d < time.Hour:
		return fmt.Sprintf("%d min left", int(d.Minutes()))
	}
	return fmt.Sprintf("%d h %d min left", int(d.Hours()), int(d.Minutes())%60)
}

// title returns the text beside the icon.
func title(s State) string {
	switch s.Figure {
	case FigureSpeed:
		return strings.TrimPrefix(speed(s.Speed.DecodeTokensPerSecond), ", ")
	case FigureMemory:
		if s.Memory.TotalBytes > 0 {
			return memory.Text(max(s.Memory.HeadroomBytes, 0))
		}
	}
	return ""
}

// cacheSize returns the size of the cache on SSD as text, with its limit if it has one.
func cacheSize(c cache.Stats) string {
	if c.MaxBytes > 0 {
		return "SSD cache: " + disk(c.Bytes) + " of " + disk(c.MaxBytes)
	}
	return "SSD cache: " + disk(c.Bytes)
}

// leastAvailableBytes is the least memory that is shown as a number.
const leastAvailableBytes = 50 << 20

func modelLine(m host.Model, s State) string {
	name := shorten(m.ID, 48)
	switch {
	case m.State == library.Downloading && m.Download != nil && m.Download.TotalBytes > 0:
		return fmt.Sprintf("%s, %d %% downloaded", name,
			min(100*m.Download.DoneBytes/m.Download.TotalBytes, 99))
	case m.State == library.Downloading:
		return name + ", downloading"
	case m.Error != "":
		return name + ", cannot be used"
	case m.Fits == memory.No:
		return name + ", needs " + memory.Text(m.NeedBytes) + ", " + memory.Text(s.RoomBytes) +
			" available"
	}
	return name + ", " + disk(m.SizeBytes) + speed(speedOf(m.ID, s))
}

// speedOf returns the decode speed of a model, 0 if it is not answering.
func speedOf(id string, s State) float64 {
	for _, e := range s.Engines {
		if e.Model == id {
			return e.DecodeTokensPerSecond
		}
	}
	return 0
}

func modelTooltip(m host.Model) string {
	if m.Error != "" {
		return m.Error
	}
	parts := []string{m.Architecture, m.Quantization, "needs about " + memory.Text(m.NeedBytes)}
	return strings.Join(parts, ", ")
}

// tooltip returns the tooltip of the icon.
func tooltip(s State) string { return "Headroom: " + stateLine(s) }

// disk formats file sizes as the Finder does: a GB is 10^9 bytes. memory.Text formats memory.
func disk(bytes int64) string {
	switch m := float64(max(bytes, 0)) / 1e6; {
	case m >= 999.5:
		return fmt.Sprintf("%.1f GB", m/1000)
	case m >= 99.95:
		return fmt.Sprintf("%.0f MB", m)
	default:
		return fmt.Sprintf("%.1f MB", m)
	}
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// shorten removes the middle of a long text, because names differ at both ends. The parameter most
// is the maximum number of characters. Control characters, which a file name may contain, become
// spaces.
func shorten(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	runes := []rune(text)
	head := (most - 1) / 2
	return string(runes[:head]) + "…" + string(runes[len(runes)-(most-1-head):])
}

// sentence capitalizes text and adds a full stop; "" stays "".
func sentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(text)
	text = string(unicode.ToUpper(first)) + text[size:]
	if strings.ContainsAny(text[len(text)-1:], ".?:") {
		return text
	}
	return text + "."
}
