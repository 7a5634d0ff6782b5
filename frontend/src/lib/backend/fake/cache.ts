// The fake cache: the conversations in it, and the requests that have ended.
import type {
  CacheMiss,
  Conversation,
  ConversationDetail,
  FinishedRequest,
  Removed,
  RequestInFlight,
} from '../types';

/** The entries on disk of one conversation: a block, a state and a tail. */
const entriesEach = 3;
const diskBytesPerToken = 4096;
const memoryBytesPerToken = 10_000;

export function fakeConversation(change: Partial<Conversation>): Conversation {
  return {
    key: 'abcd',
    model: 'headroom-demo',
    fingerprint: 'f1',
    format: 'K8 V4',
    title: 'What is a KV cache?',
    tokens: 1200,
    memoryTokens: 0,
    bytes: 12e6,
    sharedBytes: 3e6,
    createdAt: 0,
    lastHitAt: 0,
    hits: 0,
    secondsSaved: 0,
    pinned: false,
    private: false,
    ...change,
  };
}

const titles = [
  'Refactor the scheduler so that prefill and decode share a pass',
  'Translate the release notes into German',
  'Why does the build fail on arm64?',
  'Write a parser for safetensors headers',
  'Plan a week in Lisbon',
  'Review this pull request',
  'Summarize the meeting of Tuesday',
  'A recipe for lentils',
  'Explain GatedDeltaNet',
  'Compare three ways to quantize a cache',
  'Name the app',
  'Find the race in this test',
];

/** Forty conversations on disk, and one in memory only. */
export function fakeConversations(now = Date.now()): Conversation[] {
  const day = 86_400_000;
  const stored = Array.from({ length: 40 }, (_, i) => {
    const large = i % 3 !== 0;
    const round = Math.floor(i / titles.length) + 1;
    const used = now - (i * i * day) / 24;
    return fakeConversation({
      key: (0xabc000 + i).toString(16).padEnd(64, '0'),
      model: large ? 'qwen3.6-35b-a3b' : 'headroom-demo',
      fingerprint: large ? 'f2' : 'f1',
      title: titles[i % titles.length] + (round > 1 ? ` (${round})` : ''),
      tokens: Math.round(90_000 / (i + 1)) + 300,
      memoryTokens: i < 3 ? Math.round(90_000 / (i + 1)) : 0,
      bytes: Math.round((large ? 1500e6 : 260e6) / (i + 1)) + 2e6,
      sharedBytes: large ? 40e6 : 0,
      createdAt: used - day,
      lastHitAt: i % 5 === 4 ? 0 : used,
      hits: i % 5 === 4 ? 0 : 12 - (i % 12),
      secondsSaved: i % 5 === 4 ? 0 : 400 / (i + 1),
      pinned: i === 1,
    });
  });
  return [
    ...stored,
    fakeConversation({
      key: '',
      title: 'Something just asked',
      tokens: 512,
      memoryTokens: 512,
      bytes: 0,
      sharedBytes: 0,
    }),
  ];
}

function fakeRequest(
  change: Partial<FinishedRequest>,
  cacheMiss: Partial<CacheMiss>,
): FinishedRequest {
  return {
    id: 'chatcmpl-0',
    model: 'headroom-demo',
    endedAt: Date.now() - 20_000,
    finishReason: 'stop',
    promptTokens: 8192,
    computedTokens: 1024,
    memoryTokens: 7168,
    diskTokens: 0,
    generatedTokens: 212,
    draftTokens: 120,
    acceptedTokens: 106,
    gained: 1.42,
    savedSeconds: 0.9,
    noDrafts: '',
    blockHits: 0,
    blockWrites: 4,
    queuedSeconds: 0.01,
    prefillSeconds: 0.9,
    firstTokenSeconds: 0.91,
    decodeSeconds: 4.8,
    longestGapSeconds: 0.06,
    prefillTokensPerSecond: 1137,
    decodeTokensPerSecond: 44.2,
    ...change,
    cacheMiss: {
      cause: 'continued',
      advice: 'Nothing is wrong: only new text was computed.',
      firstDifference: 7168,
      commonTokens: 7168,
      commonText: '',
      previousText: '',
      promptText: '',
      previousAt: 0,
      ...cacheMiss,
    },
  };
}

/**
 * Four requests: one continues a conversation, one misses the cache because of a changed time, one
 * is restored from disk, and one was cancelled.
 */
export function fakeFinished(now = Date.now()): FinishedRequest[] {
  return [
    fakeRequest({ id: 'chatcmpl-0', endedAt: now - 20_000 }, {}),
    fakeRequest(
      {
        id: 'chatcmpl-00',
        endedAt: now - 95_000,
        computedTokens: 8150,
        memoryTokens: 42,
        firstTokenSeconds: 7.4,
        prefillSeconds: 7.3,
      },
      {
        cause: 'date_changed',
        firstDifference: 42,
        commonTokens: 42,
        advice:
          'A date or time in the beginning changes with each request: leave it out, or put it ' +
          'into the last message.',
        commonText: 'You are a careful assistant. It is ',
        previousText: '10:01. Answer in the language of the question.',
        promptText: '10:02. Answer in the language of the question.',
        previousAt: now - 160_000,
      },
    ),
    fakeRequest(
      {
        id: 'chatcmpl-000',
        endedAt: now - 3_600_000,
        computedTokens: 1024,
        memoryTokens: 1024,
        diskTokens: 6144,
        blockHits: 24,
      },
      {},
    ),
    fakeRequest(
      {
        id: 'chatcmpl-0000',
        endedAt: now - 7_200_000,
        finishReason: 'cancelled',
        computedTokens: 2048,
        memoryTokens: 0,
        generatedTokens: 0,
        firstTokenSeconds: 0,
        decodeTokensPerSecond: 0,
        decodeSeconds: 0,
      },
      { cause: 'new_conversation', firstDifference: -1, commonTokens: 0 },
    ),
  ];
}

/** What the cache stores of a request. */
export function cachedConversation(request: RequestInFlight, question: string): Conversation {
  const tokens = request.promptTokens + request.generatedTokens;
  return fakeConversation({
    key: keyOf(request.id),
    model: request.model,
    title: question.slice(0, 80),
    tokens,
    memoryTokens: request.promptTokens,
    bytes: diskBytesPerToken * tokens,
    sharedBytes: 0,
    createdAt: Date.now(),
  });
}

/** 64 hexadecimal digits that differ for each id. */
function keyOf(id: string): string {
  return Array.from(id, (letter) => letter.charCodeAt(0).toString(16))
    .join('')
    .padEnd(64, '0');
}

export function detailOf(conversation: Conversation): ConversationDetail {
  const { key, tokens } = conversation;
  const entry = { bytes: 3e6, shared: false, hits: 2 };
  return {
    ...conversation,
    entries: [
      { ...entry, key: `${key}0`, kind: 'block', from: 0, to: 256, shared: true },
      { ...entry, key: `${key}1`, kind: 'state', from: 256, to: 256 },
      { ...entry, key, kind: 'tail', from: 256, to: tokens },
    ],
  };
}

/** The disk space and memory of these conversations. */
export function sizeOf(conversations: readonly Conversation[]): Removed {
  const sum = (size: (one: Conversation) => number) =>
    conversations.reduce((total, one) => total + size(one), 0);
  return {
    entries: entriesEach * conversations.length,
    bytes: sum(({ bytes }) => bytes),
    memoryBytes: sum(({ memoryTokens }) => memoryBytesPerToken * memoryTokens),
    pending: false,
  };
}

/** A request that has ended. Its cache miss begins where its question differs from the last. */
export function finishedRequest(
  request: RequestInFlight,
  finishReason: string,
  question: string,
  previous: string,
): FinishedRequest {
  const { id, model, promptTokens, promptDoneTokens, cachedTokens, generatedTokens } = request;
  const seconds = Math.max(0.001, (Date.now() - request.startedAt) / 1000);
  const change = {
    id,
    model,
    endedAt: Date.now(),
    finishReason,
    promptTokens,
    computedTokens: Math.max(0, promptDoneTokens - cachedTokens),
    memoryTokens: cachedTokens,
    generatedTokens,
    draftTokens: 0,
    acceptedTokens: 0,
    gained: 1,
    savedSeconds: 0,
    noDrafts: 'Drafts would have cost more time than they save.',
    blockWrites: 1,
    prefillSeconds: seconds / 2,
    firstTokenSeconds: seconds / 2,
    decodeSeconds: seconds / 2,
    prefillTokensPerSecond: (2 * promptTokens) / seconds,
    decodeTokensPerSecond: (2 * generatedTokens) / seconds,
  };
  return fakeRequest(change, missOf(question, previous));
}

/** Texts with the same beginning are one message that was edited. */
function missOf(question: string, previous: string): Partial<CacheMiss> {
  let same = 0;
  while (same < previous.length && previous[same] === question[same]) same++;
  if (same < 4 || previous === question)
    return { cause: 'new_conversation', firstDifference: -1, commonTokens: same };
  return {
    cause: 'message_edited',
    advice: 'Everything after an edited message has to be computed again.',
    firstDifference: same,
    commonTokens: same,
    commonText: question.slice(0, same),
    previousText: previous.slice(same),
    promptText: question.slice(same),
    previousAt: Date.now(),
  };
}
