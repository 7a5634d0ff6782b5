package commands

// The adapters in `headroom cache ls`. The cache knows an adapter by the hash of its modules, which
// is a part of the format of a conversation's keys and values.

import (
	"encoding/hex"
	"strings"

	"headroom/app/cache"
	"headroom/engine/adapter"
	"headroom/engine/server"
)

// adapterNames are the names of a model's adapters by their hashes, by the model's ID. It reads the
// adapters of a model when one is asked for.
type adapterNames map[string]map[string]string

// of returns the name of the conversation's model, with that of its adapter as requests have it.
func (n adapterNames) of(k *cache.Conversation) string {
	_, hash, ok := strings.Cut(k.Format, cache.AdapterMark)
	if !ok {
		return oneLine(k.Model)
	}
	if n[k.Model] == nil {
		n[k.Model] = map[string]string{}
		m, _ := resolve(nil, k.Model)
		for _, a := range m.Adapters {
			if read, err := adapter.Read(a.Dir, 0); err == nil {
				n[k.Model][hex.EncodeToString(read.Digest[:])[:cache.AdapterDigits]] = a.Name
			}
		}
	}
	if name := n[k.Model][hash]; name != "" {
		return oneLine(k.Model + server.AdapterSign + name)
	}
	return oneLine(k.Model + ", adapter " + hash)
}
