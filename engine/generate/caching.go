package generate

// Caching says where the keys and values of a request may be cached. The zero value is CacheDisk.
type Caching uint8

// The values of Caching. A request with any but CacheDisk is private: none of its text, tokens or
// titles are written to disk, logged or listed.
const (
	CacheDisk   Caching = iota // in memory and on disk
	CacheMemory                // in memory only
	CacheNone                  // not at all: neither read nor written
)

// Private reports whether nothing of the request may be written to disk.
func (c Caching) Private() bool { return c != CacheDisk }

// ParseCaching returns the Caching called name: "disk", "memory" or "none". The error is a
// *ParamError about param.
func ParseCaching(param, name string) (Caching, error) {
	switch name {
	case "disk":
		return CacheDisk, nil
	case "memory":
		return CacheMemory, nil
	case "none":
		return CacheNone, nil
	}
	return CacheNone, BadParam(param,
		`expected "disk", "memory" or "none", got %.80q. With "memory" or "none", nothing of the `+
			"request is written to disk", name)
}
