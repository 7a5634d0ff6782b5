// The Try page.
import type { Text } from './text';

export const tryPage = {
  title: 'Try',
  parts: 'What to try',
  schema: 'Schema',
  decision: 'Decision',
  similarity: 'Similarity',
  model: 'Model',
};

/** What the fields contain at first. */
export const examples = {
  prompt:
    'Extract the order as JSON: Ada Byron ordered 2 lamps and 12 candles, to be delivered to Oslo.',
  schema: `{
  "type": "object",
  "properties": {
    "customer": {
      "type": "string",
      "maxLength": 20
    },
    "city": { "enum": ["Bergen", "Oslo"] },
    "items": {
      "type": "array",
      "items": {
        "type": "object",
        "properties": {
          "name": { "enum": ["candle", "lamp"] },
          "count": { "type": "integer" }
        },
        "required": ["name", "count"]
      },
      "maxItems": 3
    }
  },
  "required": ["customer", "city", "items"]
}`,
  text: 'I was charged twice for my order, and nobody answers the phone. Please fix this today.',
  predicate: 'The customer wants money back.',
  choice: 'Which team should answer?',
  choices: ['billing', 'shipping', 'technical support'],
  score: 'How urgent is it?',
  levels: ['can wait', 'this week', 'today', 'now'],
  query: 'How do I reset my password?',
  texts: [
    'Opening hours on public holidays',
    'Choose “Forgot password” on the sign-in page to get a new one by email.',
    'An account is locked after five wrong passwords.',
  ],
};

export const schemaPart = {
  help: 'The model can write only JSON that fits the schema.',
  prompt: 'Prompt',
  promptHelp: 'The schema is not a part of the prompt. Say in the prompt what to write.',
  schema: 'JSON Schema',
  schemaHelp: 'The answer has its members in this order.',
  notJson: (error: Text) => `This is not JSON: ${error}`,
  cut: (tokens: Text) =>
    `The answer reached its limit of ${tokens} tokens and is not complete. To keep it shorter, ` +
    'set maxLength and maxItems in the schema.',
};

export const decisionPart = {
  help: 'The model writes nothing. The answer is the probability of each option.',
  text: 'Text',
  type: 'Question',
  types: { predicate: 'Predicate', choice: 'Choice', score: 'Score' },
  instructions: { predicate: 'Statement', choice: 'Question', score: 'Question' },
  options: { choice: 'Options', score: 'Levels' },
  optionsHelp: {
    choice: 'One on each line.',
    score: 'One on each line, from the lowest to the highest.',
  },
  yes: 'Yes',
  no: 'No',
  score: 'Score',
  scoreValue: (score: Text, highest: Text) => `${score} of ${highest}`,
  scoreHelp: 'The expected level, counted from 0.',
  confidence: 'Confidence',
  confidenceHelp: '0 % if all options are equally likely, 100 % if one is certain.',
  refused: 'The model gave none of the options a probability.',
};

export const similarityPart = {
  help: 'An embedding model or a reranker compares one text with others.',
  query: { embed: 'Text', rerank: 'Query' },
  texts: { embed: 'Compare with', rerank: 'Documents' },
  textsHelp: 'One on each line.',
  scoreHelp: {
    embed:
      'The cosine of the vectors: 1 for the same direction, 0 for unrelated ones. The page ' +
      'computes it from the answer.',
    rerank: 'How well the document answers the query, from 0 to 1.',
  },
  needed: 'Similarity needs an embedding model or a reranker',
  isLanguageModel: (name: Text) =>
    `${name} is a language model: it generates text and computes no vectors. No embedding model ` +
    'or reranker that fits was found on this computer.',
  noneFound: 'No embedding model or reranker that fits was found on this computer.',
  download: (id: Text, bytes: Text) => `Download ${id}, ${bytes}`,
  downloading: (id: Text) => `Downloading ${id}`,
  progress: 'The Models page shows the progress.',
};

export const modelChoice = {
  loaded: (name: Text) => `${name}, loaded`,
  loads: 'The request loads this model.',
  none: 'No language model that fits was found on this computer.',
  noModelRunning: 'No model is running',
  start: (name: Text) => `Start ${name}`,
  loading: (name: Text) => `Loading ${name}`,
  progress: (progress: Text) => `${progress}. You can change the fields.`,
};

export const runBar = {
  run: 'Run',
  stop: 'Stop',
  runKey: (key: Text) => `${key} to run`,
  escStops: 'Esc to stop',
  running: (duration: Text) => `Running, ${duration}`,
  took: (duration: Text) => `Took ${duration}`,
  tookHelp: 'From sending to the whole answer; measured on this page.',
  stopped: 'Stopped.',
  answer: 'Answer',
  copyAnswer: 'answer',
  empty: 'The answer appears here.',
};

export const requestCode = {
  title: 'This request as code',
  languages: 'Language',
  example: (language: Text) => `${language} code`,
  notYet: 'The code appears when the schema is JSON.',
};

export const unreadable = {
  message: 'The answer could not be read.',
  why: (cause: Text) => `It has another form than expected: ${cause}`,
  fix: 'Try again. If it happens again, the address may belong to another program.',
};
