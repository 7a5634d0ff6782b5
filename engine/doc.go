// Package engine runs one language model for many requests at once. Open loads a model, Submit
// queues a request, Stats returns a snapshot, and Close unloads the model. The app and the server
// run models through this package alone, which is a facade over the packages below.
//
// Other Go programs of this module can use it too: the examples load a model, generate, stream,
// chat, batch, share a prefix, make vectors, and pass functions of their own over the logits. An
// Engine has no global state, so a process can have several. Until version 1.0 names may still
// change, each time with a line in CHANGELOG.md; what a greedy answer is does not.
//
// Where a comment says that errors are Problems, they are of type *problem.Problem
// (engine/problem).
//
// A request to `headroom serve` passes through the calls below. `headroom run` loads the model into
// the process of the command, so its requests begin at Engine.Submit:
//
//	service.Service.Serve      app/service     serves HTTP over the host's models
//	server.Server.prepare      engine/server   reads the body, wakes the model, encodes the prompt
//	openai.parseChatCall       engine/openai   parses OpenAI's JSON into a Call
//	server.Server.generate     engine/server   submits the prompt
//	worker.Model.Submit        app/worker      sends the request to the model's process
//	worker.session.submit      app/worker      receives the request in that process
//	engine.Engine.Submit       engine          the facade
//	loop.Loop.Submit           engine/loop     validates the request and puts it into the inbox
//	loop.Loop.run              engine/loop     the hot path: schedule, launch, complete
//	sched.Scheduler.Next       engine/sched    chooses the tokens of the next step
//	loop.Loop.launch           engine/loop     turns the work into a batch
//	runner.Runner.Step         engine/runner   batch in, logits out; on a GPU Start and Await
//	models.decoder.Forward     engine/models   an architecture, written in layers
//	nn.Attention.Forward       engine/nn       a layer, written in operators
//	ops.Context.Linear         engine/ops      an operator: tensors in, tensors out
//	matmul.Linear.CPU          kernels/matmul  a kernel; on a GPU matmul.Linear.Metal
//	loop.Loop.complete         engine/loop     waits for the step
//	loop.Loop.emitToken        engine/loop     token to text and event
//	loop.Stream.Next           engine/loop     the event, read by session.submit and sent back
//	server.answer.run          engine/server   event to text, reasoning or tool call; renders it
//	loop.Loop.finish           engine/loop     ends the request and caches its pages
//	loop.requestLog.flush      engine/loop     logs the PERF line and the cause of a cache miss
//
// Of the calls below, the first four read a cached prefix from disk, and the last two write one:
//
//	loop.Loop.lookUp            engine/loop   asks the block store, on another goroutine
//	sched.Scheduler.Promotions  engine/sched  allocates pages and a slot at the request's turn
//	loop.Loop.fetch             engine/loop   reads files into those pages
//	sched.Scheduler.Promoted    engine/sched  adds them to the prefix tree
//	loop.Loop.saveBlocks        engine/loop   writes the blocks of a request that has ended
//	loop.Loop.saveEnds          engine/loop   writes the end of a quiet conversation
//
// Opening a model makes these calls:
//
//	plan.New                 engine/plan        computes the memory that the model needs
//	plan.Plan.Check          engine/plan        refuses a model that does not fit
//	textproc.ReadWithConfig  engine/textproc    reads the tokenizer and the chat template
//	device.Open              engine/device      opens the CPU or a GPU, by name
//	checkpoint.Open          engine/checkpoint  maps the weights
//	models.Load              engine/models      builds the architecture
//	runner.New               engine/runner      allocates the caches
//	loop.New                 engine/loop        starts the loop that serves requests
package engine
