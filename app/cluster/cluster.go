// Package cluster runs one model over several machines with MLX's distributed engine: one
// mlx_lm.server, whose ranks are on the machines, behind one address on loopback.
//
// Headroom does not split models itself. mlx-lm does, by tensors or by layers, and mx.distributed
// carries what the ranks exchange: its ring over TCP, or JACCL with RDMA over Thunderbolt. Headroom
// checks the hosts and their links, installs the pinned Python environment on each, starts the
// ranks, and watches them. All ranks live and die together: when one ends or is not heard any more,
// the running requests end with an error, all ranks are killed, and new ones start.
//
// A node, `headroom cluster node`, runs on each host, started by ssh. It starts the ranks of the
// host and ends them when the connection ends, so nothing is left behind if Headroom, ssh or the
// network dies. mlx.launch is not used: it neither restarts ranks nor says which one died, takes a
// core while its stdin is closed, and leaves ranks behind if it is killed.
//
//	host.go       hosts, host files, and what MLX's ranks are told
//	rdma.go       whether RDMA over Thunderbolt is on
//	model.go      how a model is split and what each rank holds
//	shard.go      the ranks among which mlx-lm can divide a model by tensors
//	links.go      which hosts reach one another, versions, ports
//	plan.go       all checks before a start
//	wire.go       messages between cluster and nodes
//	node.go       the host's side: runs the ranks
//	exit_*.go     when a process has exited, for each system
//	text.go       lines of their output
//	peer.go       the cluster's side of a node
//	supervise.go  starts all ranks, again when one has ended
//	proxy.go      the endpoint before rank 0
//	answer.go     answers of rank 0: whole, or ended by an error
//	forward.go    connections to a rank 0 on another machine
//	rank.py       one rank: mlx_lm.server, and events
//
// Source: mlx 0.32.4, mlx-lm 0.32.2, run on Linux with the ring. JACCL is not verified on a Mac.
package cluster
