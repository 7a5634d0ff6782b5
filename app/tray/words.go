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
		return "Answering, " + name + speed(s)
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

// speed returns the current decode speed, "" if it is 0.
func speed(s State) string {
	switch v := s.Speed.DecodeTokensPerSecond; {
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
	if e.Gained > 0 {
		text += fmt.Sprintf(", %.2fx", e.Gained)
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
	if e.DraftTokens > 0 && e.Gained > 0 {
		texts = append(texts,
			fmt.Sprintf("Decoding was about %.2f times as fast as without drafts.", e.Gained))
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
	return name + ", " + disk(m.SizeBytes)
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
