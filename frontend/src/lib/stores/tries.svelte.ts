// The Try page's fields and runs. They stay while another page is open.
import { asHeadroomError, type Backend, type HeadroomError } from '../backend/backend';
import type { SnippetRequest } from '../snippets';
import {
  decisionRequest,
  linesOf,
  parsed,
  schemaRequest,
  similarityRequest,
  type DecisionAnswer,
  type Part,
  type QuestionType,
  type SchemaAnswer,
  type SimilarityAnswer,
  type Task,
} from '../tries';
import { examples } from '../../strings/try';

/** One request at a time, and the answer of the last one. */
export class Run<Answer> {
  running = $state(false);
  /** When the running request began, in ms since 1970. */
  startedAt = $state(0);
  /** While a request runs, the answer to the one before. */
  answer = $state.raw<Answer | null>(null);
  /** How long the answer took. */
  seconds = $state(0);
  error = $state.raw<HeadroomError | null>(null);
  /** A person has stopped the last request. */
  stopped = $state(false);
  #abort: AbortController | null = null;

  /** Sends a request. read converts the answer's document; it may throw a HeadroomError. */
  async send(
    backend: Backend,
    request: SnippetRequest,
    read: (document: unknown) => Answer,
  ): Promise<void> {
    if (this.running) return;
    const abort = (this.#abort = new AbortController());
    Object.assign(this, { running: true, startedAt: Date.now(), error: null, stopped: false });
    const started = performance.now();
    try {
      this.answer = read(await backend.ask(request.path, request.body, abort.signal));
      this.seconds = (performance.now() - started) / 1000;
    } catch (cause) {
      this.answer = null;
      if (abort.signal.aborted) this.stopped = true;
      else this.error = asHeadroomError(cause);
    } finally {
      this.running = false;
    }
  }

  stop(): void {
    this.#abort?.abort();
  }
}

export class TryStore {
  part = $state<Part>('schema');
  /** The language of the code. */
  language = $state<'curl' | 'python' | 'javascript' | 'go'>('curl');

  prompt = $state(examples.prompt);
  schema = $state(examples.schema);

  text = $state(examples.text);
  type = $state<QuestionType>('predicate');
  /** Each type of question has its own instructions, and options with one on each line. */
  questions = $state({
    predicate: { instructions: examples.predicate, options: '' },
    choice: { instructions: examples.choice, options: examples.choices.join('\n') },
    score: { instructions: examples.score, options: examples.levels.join('\n') },
  });

  query = $state(examples.query);
  /** One on each line. */
  texts = $state(examples.texts.join('\n'));

  /** The models that were chosen; empty: the loaded one, or else the first. */
  chosen = $state<Record<Part, string>>({ schema: '', decision: '', similarity: '' });

  /**
   * The request of a part's fields to a model of a task; null while the schema is no JSON. An
   * incomplete form has a request too, which the code shows.
   */
  request(part: Part, model: string, task: Task): SnippetRequest | null {
    switch (part) {
      case 'schema': {
        const { value, error } = parsed(this.schema);
        return error ? null : schemaRequest(model, this.prompt, value);
      }
      case 'decision': {
        const { instructions, options } = this.questions[this.type];
        return decisionRequest(model, this.text, this.type, instructions, linesOf(options));
      }
      case 'similarity':
        return similarityRequest(model, task, this.query, linesOf(this.texts));
    }
  }

  readonly schemaRun = new Run<SchemaAnswer>();
  /** One for each type of question: the answer to one does not answer another. */
  readonly decisionRuns = {
    predicate: new Run<DecisionAnswer>(),
    choice: new Run<DecisionAnswer>(),
    score: new Run<DecisionAnswer>(),
  };
  readonly similarityRun = new Run<SimilarityAnswer>();
}
