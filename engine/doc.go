// Package engine runs one language model for many requests at once. It is a facade: Open, Submit,
// Stats and Close, over the packages below. The app and the server run models through it alone.
//
// The trail of a request, one call per hop. `headroom run` starts at Engine.Submit:
//
//	commands.Serve.Run        app/commands    starts the HTTP server over the host's models
//	server.Server.prepare     engine/server   HTTP to messages, messages to a prompt
//	worker.Model.Submit       app/worker      through a pipe into the model's own process
//	engine.Engine.Submit      engine          the facade
//	loop.Loop.Submit          engine/loop     validates the request, puts it into the inbox
//	loop.Loop.run             engine/loop     the hot path: schedule, launch, complete
//	sched.Scheduler.Next      engine/sched    which tokens of which sequences come next
//	loop.Loop.launch          engine/loop     the work as a batch
//	runner.Runner.Step        engine/runner   batch in, logits out; on a GPU Start and Await
//	models.decoder.Forward    engine/models   an architecture, written in layers
//	nn.Attention.Forward      engine/nn       a layer, written in operators
//	ops.Context.Linear        engine/ops      an operator: tensors in, tensors out
//	matmul.Linear.CPU         kernels/matmul  a kernel
//	loop.Loop.complete        engine/loop     waits for the step
//	loop.Loop.emitToken       engine/loop     token to text and event
//	loop.Stream.Next          engine/loop     the event, back in the server
//	loop.requestLog.record    engine/loop     its PERF line, and why it missed the cache
//
// The trail of a prefix from disk, and back:
//
//	loop.Loop.lookUp            engine/loop   asks the block store, beside the loop
//	sched.Scheduler.Promotions  engine/sched  pages and a slot, when the request's turn comes
//	loop.Loop.fetch             engine/loop   reads files into those pages
//	sched.Scheduler.Promoted    engine/sched  adds them to the prefix tree
//	loop.Loop.saveBlocks        engine/loop   writes what a request has computed, when it ends
//	loop.Loop.saveEnds          engine/loop   writes the end of a quiet conversation
//
// The trail of a model that is opened:
//
//	plan.New         engine/plan        what it needs, measured on a device without memory
//	plan.Plan.Check  engine/plan        refuses it if that does not fit
//	device.Open      engine/device      the CPU or a GPU, by name
//	checkpoint.Open  engine/checkpoint  maps the weights
//	models.Load      engine/models      builds the architecture
//	runner.New       engine/runner      allocates the caches
//	loop.New         engine/loop        starts to serve
package engine
