// The streams of the fake server: the control API's events, and OpenAI's chat completions.
import { HeadroomError } from '../backend';
import type { ChatEvent, ChatMessage, ChatRequest, ChatUsage, State } from '../types';
import type { FakeBackend } from './backend';
import { errorBody } from './routes';

/** The interval between states: at most four per second, as in app/control. */
const stateMs = 250;

/** Streams the state, at once and when it has changed, and the other events as they happen. */
export function streamEvents(backend: FakeBackend): Response {
  return eventStream((write) => {
    let latest: State = backend.state;
    let sent: State | null = null;
    const send = (event: string, document: unknown) =>
      write(`event: ${event}\ndata: ${JSON.stringify(document)}\n\n`);
    const sendState = () => {
      if (sent !== latest) send('state', (sent = latest));
    };
    sendState();
    const timer = setInterval(sendState, stateMs);
    const watch = backend.watch({
      onState: (state) => (latest = state),
      onConnection: () => {},
      onModels: (changes) => {
        sendState(); // with the new modelsVersion
        send('models', { changes });
      },
      onJobs: (jobs) => send('jobs', { jobs }),
      onChats: (version) => send('chats', { version }),
    });
    return () => {
      clearInterval(timer);
      watch.close();
    };
  });
}

/** A request for a chat completion, as far as the fake reads it. */
interface CompletionRequest {
  model: string;
  messages: ChatMessage[];
  stream?: boolean;
  max_tokens?: number;
  chat_template_kwargs?: { enable_thinking?: boolean };
  tools?: unknown[];
  cache?: string;
}

/** Answers a chat completion, as a stream or complete. Throws when it is refused. */
export async function complete(backend: FakeBackend, body: CompletionRequest): Promise<Response> {
  const asked: ChatRequest = {
    model: body.model,
    messages: body.messages,
    thinking: body.chat_template_kwargs?.enable_thinking ?? false,
    sampling: body.max_tokens === undefined ? {} : { maxTokens: body.max_tokens },
    tools: body.tools ?? [],
    ...(body.cache === 'memory' && { private: true }),
  };
  const abort = new AbortController();
  const events = backend.chat(asked, abort.signal);
  const first = await events.next(); // A refused request has no first event.
  if (!body.stream) return Response.json(await completion(events));
  return eventStream((write, close) => {
    void writeChunks(first, events, write).finally(close);
    return () => abort.abort();
  });
}

async function completion(events: AsyncIterable<ChatEvent>) {
  let content = '';
  let finish_reason = '';
  let usage: ReturnType<typeof wireUsage> | null = null;
  for await (const event of events) {
    if (event.type === 'content') content += event.text;
    if (event.type === 'finish') finish_reason = event.reason;
    if (event.type === 'usage') usage = wireUsage(event.usage);
  }
  const message = { role: 'assistant', content };
  const choices = [{ index: 0, message, finish_reason }];
  return { id: 'chatcmpl-fake', object: 'chat.completion', choices, usage };
}

async function writeChunks(
  first: IteratorResult<ChatEvent>,
  events: AsyncGenerator<ChatEvent>,
  write: (text: string) => void,
): Promise<void> {
  try {
    for (let next = first; !next.done; next = await events.next()) write(chunkOf(next.value));
    write('data: [DONE]\n\n');
  } catch (cause) {
    if (!(cause instanceof HeadroomError)) throw cause;
    write(dataLine(errorBody(cause)));
  }
}

function chunkOf(event: ChatEvent): string {
  switch (event.type) {
    case 'prefill':
      return `: keepalive ${event.doneTokens}/${event.totalTokens}\n\n`;
    case 'reasoning':
      return choice({ reasoning_content: event.text, reasoning: event.text });
    case 'content':
      return choice({
        content: event.text,
        ...(event.accepted && { accepted_prediction: true }),
      });
    case 'call': {
      const { index, name, arguments: text } = event;
      return choice({ tool_calls: [{ index, function: { name, arguments: text } }] });
    }
    case 'finish':
      return choice({}, event.reason);
    case 'usage':
      return chunk({ choices: [], usage: wireUsage(event.usage) });
  }
}

function choice(delta: object, finish_reason: string | null = null): string {
  return chunk({ choices: [{ index: 0, delta, finish_reason }] });
}

function chunk(fields: object): string {
  return dataLine({ id: 'chatcmpl-fake', object: 'chat.completion.chunk', ...fields });
}

function dataLine(document: object): string {
  return `data: ${JSON.stringify(document)}\n\n`;
}

function wireUsage(usage: ChatUsage) {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    prompt_tokens_details: { cached_tokens: usage.cachedTokens },
    completion_tokens_details: {
      reasoning_tokens: usage.reasoningTokens,
      accepted_prediction_tokens: usage.acceptedTokens,
      rejected_prediction_tokens: usage.draftTokens - usage.acceptedTokens,
    },
  };
}

/**
 * A response of server-sent events. `start` gets functions that write text and end the response,
 * and returns what to do when the client leaves.
 */
function eventStream(
  start: (write: (text: string) => void, close: () => void) => () => void,
): Response {
  const encoder = new TextEncoder();
  let left = false;
  let leave = () => {};
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      leave = start(
        (text) => left || controller.enqueue(encoder.encode(text)),
        () => left || controller.close(),
      );
    },
    cancel() {
      left = true;
      leave();
    },
  });
  const headers = { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' };
  return new Response(body, { headers });
}
