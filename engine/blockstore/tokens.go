package blockstore

// EachTokens calls see with the key and the tokens of every conversation that the filter chooses;
// of those whose beginning is not stored any more with nil. The index is read once, so this is the
// way to ask for many; the tokens of one are in its Detail.
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
			tokens, err := pathTokens(x.db, end)
			if err != nil {
				return err
			}
			see(end.key, tokens)
		}
		return nil
	})
}
