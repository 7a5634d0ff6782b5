// Package engine runs one language model for many requests at once. It is a facade: Open, Submit,
// Stats and Close, over the packages below. The app and the server run models through it alone.
//
// The trail of a request, one file and one call per hop:
//
//	app/commands.Serve    app/commands/serve.go     starts the HTTP server over the host's models
//	server.handleChat     engine/server             HTTP to messages, messages to a prompt
//	worker.Model.Submit   app/worker/client.go      through a pipe into the model's own process
//	Engine.Submit         engine/engine.go          the facade
//	loop.Loop.Submit      engine/loop/inbox.go      validates the request, puts it into the inbox
//	loop.Loop.run         engine/loop/loop.go       schedule, launch, complete: the hot path
//	sched.Scheduler.Next  engine/sched/sched.go     which tokens of which sequences come next
//	loop.Loop.launch      engine/loop/step.go       the work as a batch
//	runner.Runner.Step    engine/runner/runner.go   batch in, logits out; on a GPU Start and Await
//	qwen3.Forward         engine/models/qwen3.go    an architecture, written in layers
//	nn.Attention.Forward  engine/nn/attention.go    a layer, written in operators
//	ops.Context.Linear    engine/ops                an operator: tensors in, tensors out
//	loop.Loop.emitToken   engine/loop/token.go      token to text and event
//	loop.Stream.Next      engine/loop/stream.go     the event, back in the server
//
// `headroom run` calls Engine.Submit without the first three hops.
//
// The trail of a prefix from disk:
//
//	loop.Loop.lookUp            asks the block store, beside the loop
//	sched.Scheduler.Promotions  pages and a slot for it, when the request's turn comes
//	loop.Loop.fetch             reads files into those pages
//	sched.Scheduler.Promoted    adds it to the prefix tree; the request resumes after it
//	loop.Loop.saveBlocks        writes what a request has computed, when it ends
//	loop.Loop.saveEnds          writes the end of a quiet conversation
//
// Opening a model: plan.New works out what it needs on a device that allocates nothing, plan.Check
// refuses it if that does not fit, checkpoint.Open maps the weights, models.Load builds the
// architecture, runner.New allocates the caches, and loop.New starts to serve.
package engine
