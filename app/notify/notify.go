// Package notify tells a person, by the system's own notifications, what has ended while nobody
// looked: a download, an import, an engine.
//
// follow.go watches, news.go decides what is worth saying, and a Service shows it: freedesktop.go
// on Linux, usernotifications_darwin.go and script_darwin.go on a Mac. What a click does is the
// caller's business.
package notify

// Notice is one announcement.
type Notice struct {
	// of what it is about: a later notice takes the place of an earlier one with the same key
	Key   string
	Title string
	Body  string
	Label string // of what a click does, as a button has it
	Hint  string // the same as a sentence, for systems that show no buttons
	Start string // the model that a click starts, by ID or folder; "": a click opens the window
}

// Service is the system's notifications. Its methods may be called from any goroutine.
type Service interface {
	// Show shows a notice. clicked is called on a goroutine of its own when a person clicks it;
	// systems that cannot tell never call it.
	Show(n Notice, clicked func()) error
	// Close takes away what is still shown: a click would find nobody.
	Close()
}
