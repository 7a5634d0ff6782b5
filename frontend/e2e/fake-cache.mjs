// The fake server's cache: a conversation for each question that was answered, requests that
// have ended, and settings. The addresses and documents are those of app/control.

const fields = ['on', 'dir', 'maxBytes', 'minFreeBytes', 'dailyWriteBytes'];

/** `many` is how many conversations there are before the first question. */
export function fakeCache(many = 0) {
  let conversations = Array.from({ length: many }, (_, i) => ({
    question: '',
    key: (0xabc000 + i).toString(16).padEnd(64, '0'),
    model: `org/model-${i % 7}`,
    fingerprint: `f${i % 7}`,
    format: 'f16',
    title: `Conversation ${i} about thing ${i % 113}`,
    tokens: 200 + ((i * 37) % 9000),
    memoryTokens: 0,
    bytes: 1e5 + ((i * 7919) % 1e6),
    sharedBytes: 0,
    createdAt: Date.now() - i * 60_000,
    lastHitAt: Date.now() - i * 30_000,
    hits: i % 9,
    secondsSaved: i % 50,
    pinned: i % 500 === 0,
  }));
  const finished = [];
  const settings = {
    on: true,
    dir: '/fake/headroom/blocks',
    maxBytes: 0,
    minFreeBytes: 0,
    dailyWriteBytes: 0,
    readOnly: [],
    needsRestart: [],
  };
  const made = Date.now();
  let written = 0;
  let numbered = 0xfa4e00;

  const bytes = () => conversations.reduce((sum, one) => sum + one.bytes, 0);
  const limit = (set, usual) => set || usual;

  function stats() {
    return {
      on: true,
      dir: '/fake/headroom/blocks',
      bytes: bytes(),
      maxBytes: limit(settings.maxBytes, 20e9),
      entries: 2 * conversations.length,
      diskBytes: 494e9,
      freeBytes: 210e9,
      minFreeBytes: limit(settings.minFreeBytes, 10e9),
      todayBytes: written,
      dailyWriteBytes: limit(settings.dailyWriteBytes, 40e9),
      writtenBytes: written,
      writtenSince: made,
      hits: 0,
      misses: finished.length,
      secondsSaved: 0,
      dropped: 0,
      skipped: 0,
      damaged: 0,
      otherVersions: 0,
      evicted: 0,
      saveErrors: 0,
      error: '',
      memoryBytes: bytes(),
    };
  }

  /** A request has ended. */
  function ended(request, question, cancelled) {
    const { id, model, promptTokens, promptDoneTokens, cachedTokens, generatedTokens, startedAt } =
      request;
    const seconds = (Date.now() - startedAt) / 1000;
    // What differs from the last question, as the engine would find it.
    const last = conversations[0]?.question ?? '';
    let at = 0;
    while (at < last.length && last[at] === question[at]) at++;
    const again = at > 3 && last !== question;
    finished.unshift({
      id,
      model,
      endedAt: Date.now(),
      finishReason: cancelled ? 'cancelled' : 'stop',
      promptTokens,
      computedTokens: Math.max(0, promptDoneTokens - cachedTokens),
      memoryTokens: cachedTokens,
      diskTokens: 0,
      generatedTokens,
      blockHits: 0,
      blockWrites: 1,
      queuedSeconds: 0,
      prefillSeconds: seconds / 2,
      firstTokenSeconds: seconds / 2,
      decodeSeconds: seconds / 2,
      longestGapSeconds: 0.02,
      prefillTokensPerSecond: (2 * promptTokens) / seconds,
      decodeTokensPerSecond: (2 * generatedTokens) / seconds,
      cacheMiss: {
        cause: again ? 'message_edited' : 'new_conversation',
        advice: again
          ? 'What follows an edited message has to be read again.'
          : 'Nothing is wrong.',
        firstDifference: again ? at : -1,
        commonTokens: at,
        commonText: again ? question.slice(0, at) : '',
        previousText: again ? last.slice(at) : '',
        promptText: again ? question.slice(at) : '',
        previousAt: again ? made : 0,
      },
    });
    const size = 4096 * (promptTokens + generatedTokens);
    written += size;
    conversations.unshift({
      question,
      key: (numbered++).toString(16).padEnd(64, '0'),
      model,
      fingerprint: 'fake',
      format: 'f16',
      title: question.slice(0, 80),
      tokens: promptTokens + generatedTokens,
      memoryTokens: promptTokens,
      bytes: size,
      sharedBytes: 0,
      createdAt: Date.now(),
      lastHitAt: 0,
      hits: 0,
      secondsSaved: 0,
      pinned: false,
    });
  }

  const document = ({ question, ...conversation }) => conversation;
  const missing = [
    404,
    { error: { code: 'not_found', message: 'No such conversation', why: '', fix: '' } },
  ];

  function remove(gone) {
    conversations = conversations.filter((one) => !gone.includes(one));
    return [
      200,
      { entries: 2 * gone.length, bytes: gone.reduce((sum, one) => sum + one.bytes, 0) },
    ];
  }

  /** [status, document]; null for no body. */
  function answer(method, path, query, body) {
    if (path === '/api/requests/recent') return [200, { requests: finished.slice(0, 64) }];
    if (path === '/api/settings/cache') {
      for (const field of fields)
        if (method === 'PUT' && body[field] !== undefined) settings[field] = body[field];
      settings.needsRestart = settings.on ? [] : ['on'];
      return [200, settings];
    }
    if (path === '/api/cache') {
      if (method === 'GET')
        return [200, { stats: stats(), conversations: conversations.map(document) }];
      return remove(
        conversations.filter(
          (one) => !query.get('model') || one.fingerprint === query.get('model'),
        ),
      );
    }
    const [, key, pin] = /^\/api\/cache\/([0-9a-f]+)(\/pin)?$/.exec(path) ?? [];
    const found = conversations.find((one) => one.key === key);
    if (!found) return missing;
    if (pin) {
      found.pinned = body.pinned;
      return [204, null];
    }
    if (method === 'DELETE') return remove([found]);
    const entry = { key, bytes: found.bytes, shared: false, hits: 0 };
    return [
      200,
      { ...document(found), entries: [{ ...entry, kind: 'tail', from: 0, to: found.tokens }] },
    ];
  }

  return { stats, ended, answer, finished };
}
