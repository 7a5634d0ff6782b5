import type { Text } from './text';

export const welcome = {
  welcomeHeadroom: 'Welcome to Headroom',
  fitsHere: 'What fits here',
  firstAnswer: 'A first answer',
  kvCache: 'What is a KV cache?',
  step: (step: Text, welcomeSteps: Text) => `Step ${step} of ${welcomeSteps}`,
  closeWelcome: 'Close the welcome',
  headroomRunsLanguageModels:
    'Headroom runs language models on this computer and shows exactly how much memory they ' +
    'use. Chat here, or connect any app that speaks the OpenAI API:',
  endpointAddress: 'endpoint address',
  nothingSentElsewhereQuestions:
    'Everything stays on this computer. Close this window and Headroom keeps running. The ' +
    'Overview page has examples to paste into common tools.',
  smallModelComesHeadroom:
    'A tiny demo model is included so you can try it now. It is a toy: get a real one next.',
  model: 'A model',
  oneAnswers: (t: Text) => `${t} will answer.`,
  model2: 'the model',
  loading: (model2: Text, suffix: Text) => `Loading ${model2}${suffix}.`,
  worksConversationChatPage: 'It works. This conversation is on the Chat page.',
  back: 'Back',
  next: 'Next',
  openChat: 'Open Chat',
  done: 'Done',
  askAgain: 'Ask again',
  ask: 'Ask',
};

export const whatFits = {
  computer: 'This computer has',
  memoryRoomModel: 'of memory, and space for a model of',
  now: 'now.',
  thatIs: 'That is',
  billionParametersBitsConversatio: 'billion parameters at 4 bits, with a typical conversation.',
  computer2: 'On this computer',
  running: 'Running',
  noModelFitsFound: 'No model that fits was found.',
  moreFit: (most: Text) => `${most} more fit.`,
  moreHereCannotStarted: (others: Text) =>
    `${others} more cannot run right now; the Models page says why.`,
  othersComeModelsPage:
    'Get others on the Models page: from Hugging Face, or by dropping a folder onto this window.',
};
