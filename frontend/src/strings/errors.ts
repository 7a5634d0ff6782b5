// The errors of the connection to Headroom. All other errors are texts of the server.
import type { Text } from './text';

export const unreachable = {
  message: 'Headroom did not answer.',
  why: (cause: Text) => `The connection failed: ${cause}.`,
  fix: 'Start Headroom again from the menu bar or with `headroom serve`.',
  /** Causes. */
  noBody: 'the answer has no body',
  noState: 'control/state: expected an object with engine, memory, cache and speed',
  longLine: (maxChars: Text) => `the stream has a line longer than ${maxChars} characters`,
};

export const refused = {
  message: (status: Text) => `Headroom refused the request (HTTP ${status}).`,
};

export const answerFailed = {
  message: 'The answer ended with an error.',
};

export const answerEndedEarly = {
  message: 'The answer is incomplete.',
  why: 'The connection to Headroom ended before the answer was complete.',
  fix: 'Retry; if Headroom was stopped, start it first.',
};

export const answerUnreadable = {
  message: 'The answer could not be read.',
  why: (piece: Text) => `A piece of the stream is not a JSON object: ${piece}`,
  fix: 'Retry. If it happens again, the address may belong to another program.',
};
