// Package draft proposes tokens that a model will probably generate next. One pass then computes
// several of them, and those that the model would have chosen are kept. A proposal never changes an
// answer, only the time that it takes.
//
//	lookup.go   what followed the same tokens earlier in the same sequence
//	chain.go    what a block of the model drafts (models.Drafter), one token after another
//	depth.go    how many tokens are worth a proposal, from measured times and from earlier hits
//
// Nothing here knows a device or a clock.
package draft

// MaxTokens is the maximum number of tokens in a proposal.
const MaxTokens = 8
