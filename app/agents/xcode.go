package agents

// Xcode has no documented file or command for its chat providers, so a person adds one in its
// settings: https://developer.apple.com/documentation/xcode/setting-up-coding-intelligence

import (
	"net/url"
	"strings"
)

var xcode = &agent{
	id: "xcode", name: "Xcode",
	docs: "https://developer.apple.com/documentation/xcode/setting-up-coding-intelligence",
	apps: []string{"/Applications/Xcode.app", "/Applications/Xcode-beta.app"},
	steps: func(t Target, key string) []string {
		port := ""
		if u, err := url.Parse(t.URL); err == nil {
			port = u.Port()
		}
		steps := []string{"In Xcode, choose Settings, Intelligence, and add a chat provider. " +
			"(Xcode 26 calls it a model provider.)"}
		if key == "" {
			return append(steps, "Choose Locally Hosted, and enter the port "+port+
				" and the description Headroom.", "Choose the model "+t.Model+".")
		}
		return append(steps, "Choose Internet Hosted. Enter the URL "+
			strings.TrimSuffix(t.URL, "/v1")+", the API key "+key+
			", the API key header x-api-key, and the description Headroom.",
			"Choose the model "+t.Model+".")
	},
}
