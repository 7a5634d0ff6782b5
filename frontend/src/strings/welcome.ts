// The welcome of a first start.
import { counted, type Text } from './text';

export const welcome = {
  titles: ['Welcome to Headroom', 'What fits here', 'A first answer'],
  question: 'What is a KV cache?',
  step: (step: Text, steps: Text) => `Step ${step} of ${steps}`,
  close: 'Close the welcome',
  introduction:
    'Headroom runs language models on this computer and shows exactly how much memory they ' +
    'use. Chat here, or connect any app that speaks the OpenAI API:',
  address: 'endpoint address',
  private:
    'Everything stays on this computer. Close this window and Headroom keeps running. The ' +
    'Overview page has examples to paste into common tools.',
  demo: 'A tiny demo model is included so you can try it now. It is a toy: get a real one next.',
  aModel: 'A model',
  answers: (name: Text) => `${name} will answer.`,
  theModel: 'the model',
  loading: (name: Text) => `Loading ${name}.`,
  loadingAt: (name: Text, progress: Text) => `Loading ${name}, ${progress}.`,
  answered: 'It works. This conversation is on the Chat page.',
  back: 'Back',
  next: 'Next',
  ask: 'Ask',
  askAgain: 'Ask again',
  openChat: 'Open Chat',
  done: 'Done',
};

export const whatFits = {
  /** A sentence in parts, with figures between them. */
  computerHas: 'This computer has',
  memoryAnd: 'of memory, and',
  availableNow: 'available for a model now.',
  thatIs: 'That is',
  billionParameters: 'billion parameters at 4 bits, with a typical conversation.',
  models: 'On this computer',
  details: (sizeBytes: Text, verdict: Text) => `${sizeBytes}. ${verdict}.`,
  running: 'Running',
  noneFits: 'No model that fits was found.',
  moreFit: (count: Text) => counted(count, 'more fits.', 'more fit.'),
  moreUnusable: (count: Text) => `${count} more cannot run right now; the Models page says why.`,
  getOthers:
    'Get others on the Models page: from Hugging Face, or by dropping a folder onto this window.',
};
