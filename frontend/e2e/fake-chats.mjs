// The conversations of fake-server.mjs: those of app/chats, in memory.

/** changed is called with another number after each write. */
export function fakeChats(changed) {
  const kept = new Map();
  let version = 0;
  const tell = () => changed(++version);

  /** Answers [status, document]; a document of null is none. */
  function answer(method, path, query, body) {
    const id = decodeURIComponent(path.replace(/^\/api\/chats\/?/, ''));
    if (id === '') return [200, { chats: list(query.get('search') ?? '') }];
    const before = kept.get(id);
    if (method === 'DELETE') {
      kept.delete(id);
      tell();
      return [204, null];
    }
    if (method === 'GET')
      return before
        ? [200, before]
        : [404, refusal('not_found', 'This conversation is not here any more')];
    if ((before?.summary.revision ?? 0) !== body.revision)
      return [409, refusal('changed', 'This conversation was changed elsewhere')];
    const messages = [...(before?.messages.slice(0, body.from) ?? []), ...body.messages];
    const summary = {
      id,
      title: body.title,
      updatedAt: body.updatedAt,
      messages: messages.length,
      revision: body.revision + 1,
      damage: '',
      path: `/chats/${id}.json`,
      excerpt: '',
    };
    kept.set(id, { summary, messages });
    tell();
    return [200, summary];
  }

  function list(search) {
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    return [...kept.values()]
      .filter(({ summary, messages }) =>
        words.every((word) =>
          [summary.title, ...messages.map(({ content }) => content)]
            .join(' ')
            .toLowerCase()
            .includes(word),
        ),
      )
      .map(({ summary, messages }) => ({
        ...summary,
        excerpt:
          messages
            .find(({ content }) => words.some((word) => content.toLowerCase().includes(word)))
            ?.content.slice(0, 80) ?? '',
      }))
      .sort((a, b) => b.updatedAt - a.updatedAt);
  }

  return { answer, version: () => version };
}

const refusal = (code, message) => ({ error: { code, message, why: '', fix: '' } });
