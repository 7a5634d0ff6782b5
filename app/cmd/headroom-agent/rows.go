package main

// What the menu lists besides the host's state: conversations and downloads.

import (
	"log/slog"

	"headroom/app/chats"
	"headroom/app/jobs"
	"headroom/app/tray"
)

// recentChats lists the latest conversations. It reads the list again when it has changed, since
// the menu is drawn twice a second.
type recentChats struct {
	store   *chats.Store // nil: none
	version int          // of the list that was read; -1: none was
	read    []tray.Chat
}

func (r *recentChats) list() []tray.Chat {
	if r.store == nil {
		return nil
	}
	version := r.store.Version()
	if version == r.version {
		return r.read
	}
	list, err := r.store.List()
	if err != nil {
		slog.Debug("the menu lists no conversations", "err", err)
		list = nil
	}
	r.version, r.read = version, nil
	for _, c := range list[:min(len(list), maxRecent)] {
		r.read = append(r.read, tray.Chat{ID: c.ID, Title: c.Title})
	}
	return r.read
}

// downloads returns the downloads that run or wait.
func downloads(list []jobs.Job) (running []tray.Download) {
	for _, j := range list {
		if j.Kind == jobs.Download && !j.State.Ended() {
			running = append(running, tray.Download{Title: j.Title, DoneBytes: j.DoneBytes,
				TotalBytes: j.TotalBytes, Left: j.Left})
		}
	}
	return running
}
