// Package engine runs one language model for many requests at once. It is the facade: the app and
// the server know the engine by this package alone.
//
// The way of a request, each hop one file and one call:
//
//	app/commands.Serve  ->  server.chat (engine/server)        HTTP to messages, messages to a prompt
//	worker.Model.Submit app/worker                             over a pipe into the model's own process; headroom run goes without
//	Engine.Submit       engine.go                              checks it and puts it into the inbox
//	Engine.loop         loop.go                                schedule, run, postprocess: the whole hot path
//	  sched.Next        engine/sched                           which tokens of which sequences go through the model now
//	  Engine.begin      step.go                                the work as a batch; on a GPU with placeholders for tokens it is still choosing
//	  runner.Step       engine/runner                          the batch to the device, the logits back (on a GPU Start and Await: the tokens)
//	    Model.Forward   engine/models/qwen3_5.go               an architecture, written in layers
//	      nn.Attention  engine/nn                              a layer, written in operators
//	        ops.Linear  engine/ops                             an operator: tensors in, tensors out
//	          matmul.Linear  kernels/matmul                    its reference and one implementation per device
//	  Engine.next       loop.go                                sample (engine/sample, kernels/sampling), detokenize, stop texts, event
//	  books.depart      perf.go                                at its end: the PERF line, and why tokens were read again (engine/cachemiss)
//	Stream.Next         stream.go                              the event, back in the server
//
// Loading goes by checkpoint (files to weights), models.Load (weights to an architecture) and a
// plan made on a device that only measures (load.go): what a model needs is known, and refused if
// it does not fit, before a weight is read.
//
// The way of a prefix that was computed before (blocks.go):
//
//	Engine.lookUp     asks the block store beside the loop      ->  blockstore.View.Find
//	sched.promote     pages and a slot, when its turn comes     ->  Engine.fetch, blockstore.View.Load: files into those pages
//	sched.Promoted    into the prefix tree; the request starts behind it as behind any other (sched.admit)
//	Engine.hasEnded   what was computed, and Engine.saveEnds what a quiet conversation ends with  ->  blockstore.View.Save
//
// One goroutine, Engine.loop, owns the device, the scheduler and every request at work. Others
// reach it through the inbox and read what it publishes; it waits for nobody.
package engine
