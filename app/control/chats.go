package control

// The conversations of the Chat page over HTTP, as app/chats encodes them.

import (
	"net/http"

	"headroom/app/chats"
)

// ChatList is the response of /control/chats.
type ChatList struct {
	Chats []chats.Summary `json:"chats"` // last changed first
}

// ChatsEvent is the data of a "chats" event.
type ChatsEvent struct {
	Version int `json:"version"` // changes whenever a conversation does
}

const chatExample = `{"revision": 0, "title": "Hello", "updatedAt": 0, "from": 0, ` +
	`"messages": [{"id": "1", "role": "user", "content": "Hello"}]}`

func (a *API) chatRoutes() []Route {
	return []Route{
		route("GET /control/chats",
			"Lists the conversations of the Chat page, without their messages.", "",
			func(r *http.Request, _ nothing) (ChatList, error) {
				list, err := a.chats.Search(r.URL.Query().Get("search"))
				return ChatList{list}, err
			}).
			withQueries(Query{"search",
				"Words that the title or the messages must all contain, ignoring case."}),
		route("GET /control/chats/{id}",
			"Returns one conversation, or the readable part of a damaged one.", "",
			func(r *http.Request, _ nothing) (chats.Chat, error) {
				return a.chats.Read(r.PathValue("id"))
			}),
		route("PUT /control/chats/{id}",
			"Creates a conversation, or replaces its messages from an index on. Responds with 409 "+
				"if the conversation has another revision.", chatExample,
			func(r *http.Request, c chats.Change) (chats.Summary, error) {
				return a.chats.Write(r.PathValue("id"), c)
			}).withMaxBody(chats.MaxBodyBytes),
		route("DELETE /control/chats/{id}", "Deletes a conversation.", "",
			func(r *http.Request, _ nothing) (nothing, error) {
				return nothing{}, a.chats.Remove(r.PathValue("id"))
			}),
	}
}

func (a *API) chatsSubscribe() (written <-chan struct{}, done func()) {
	if a.chats == nil {
		return nil, func() {}
	}
	return a.chats.Subscribe()
}

func (a *API) chatsEvent() ChatsEvent {
	if a.chats == nil {
		return ChatsEvent{}
	}
	return ChatsEvent{a.chats.Version()}
}
