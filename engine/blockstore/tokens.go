package blockstore

// This file reads the tokens of many conversations. A process that explains cache misses keeps them
// all; see engine/loop.

// EachTokens calls see(key, tokens) for every conversation that the filter selects. The tokens are
// nil if the first part of the conversation is no longer stored. If the index changes meanwhile,
// EachTokens begins again, so see may get a conversation twice. For a single one, use Show.
func (s *Store) EachTokens(filter Filter, see func(key Key, tokens []int32)) error {
	return s.browse(func(x *index) error {
		f, models, err := readAll(x.db)
		if err != nil {
			return err
		}
		for _, end := range f.ends() {
			if filter.Fingerprint != "" && models[end.model].Fingerprint != filter.Fingerprint {
				continue
			}
			tokens, err := pathTokens(s.safe(), x.db, end)
			if err != nil {
				return err
			}
			see(end.key, tokens)
		}
		return nil
	})
}
