/* b: the table. Lines lead from the ids to the rows that a lookup reads, and on to its result. */
'use strict';

stations.b = (root, state) => {
    let ids = state.ids ?? '2 3 5 1', answer = null, batch = null;
    const asked = ask('b.lookup', '2 3 5 1');
    const error = errorLine(), picture = el('div', {class: 'card'}), live = el('div', {'aria-live': 'polite'});
    const product = el('section', {class: 'card'});

    /* Adds a row's id to the lookup, or takes it out. */
    const toggle = (id) => {
        const list = ids.split(/[\s,;]+/).filter((word) => word);
        const rest = list.filter((word) => word !== String(id));
        ids = (rest.length < list.length && rest.length ? rest : [...list, id]).join(' ');
        input.querySelector('input').value = ids;
        draw();
        picture.querySelector(`[data-row="${id}"]`)?.focus();
    };

    const draw = () => {
        keep('ids', ids);
        const found = ask('b.lookup', ids);
        if (!isGood(found, error, picture, live, product)) return;
        answer = found;
        picture.replaceChildren(drawing(space(picture), answer, toggle));
        live.replaceChildren(paragraph('b.live', answer), paragraph('b.shapes', answer, 'note'));
        product.replaceChildren(el('h3', {}, say('b.product')), el('div', {class: 'scroll', tabindex: '0', role: 'region',
            'aria-label': say('b.product')}, el('div', {class: 'product'},
            matrix(answer, 'one_hot', say('b.one_hot'), (i, k) => answer.one_hot[i][k] === 1),
            el('span', {class: 'sign'}, '×'), matrix(answer, 'table', say('b.table'), (i) => answer.ids.includes(i)),
            el('span', {class: 'sign'}, '='), matrix(answer, 'product', say('b.result'), () => true))),
            paragraph(answer.same_bits ? 'b.same' : 'b.differs', answer, 'note'));
    };

    const input = textInput(say('b.ids'), ids, paused((value) => {
        ids = value;
        draw();
    }));
    root.append(question('b', () => 2, () => asked), el('div', {class: 'columns'},
        el('div', {}, el('div', {class: 'controls'}, input), error, picture),
        el('div', {class: 'beside'}, live, paragraph('b.text'))), product, code('b.lookup', 'b.one_hot'));
    draw();

    const shapes = el('div', {'aria-live': 'polite', class: 'shapes'});
    root.append(el('section', {class: 'card'}, el('h3', {}, say('b.batch')), paragraph('b.batch_text'),
        el('button', {type: 'button', class: 'main', onclick: () => {
            batch = batch ?? ask('b.batch');
            shapes.replaceChildren(batch.error ? el('p', {class: 'error'}, batch.error) : el('div', {},
                el('p', {class: 'mono'}, figure(batch, 'ids_shape'), ' → ', figure(batch, 'rows_shape')),
                el('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': say('b.batch_ids')},
                    el('table', {'aria-label': say('b.batch_ids')}, el('tbody', {}, batch.ids.map((row, i) => el('tr', {}, row.map((_, k) =>
                        el('td', {}, figure(batch, `ids.${i}.${k}`), figure(batch, `tokens.${i * row.length + k}`, 'bdi')))))))),
                paragraph('b.batch_ids_text', null, 'note'),
                paragraph('b.batch_result', batch), code('b.batch')));
        }}, say('b.batch_button')), shapes));

    const resized = () => answer && picture.replaceChildren(drawing(space(picture), answer, toggle));
    window.addEventListener('resize', resized);
    page.leave = () => window.removeEventListener('resize', resized);

    function drawing(room, answer, toggle) {
        const width = Math.min(room, 620), narrow = width < 480, cell = narrow ? 44 : 66, high = 34, top = 30;
        const table = narrow ? 22 : 90, result = width - 3 * cell, count = Math.max(6, answer.ids.length);
        const y = (i) => top + i * high, middle = (i) => y(i) + high / 2 - 2;
        /* the result stands in the middle beside the table */
        const down = ((6 - answer.ids.length) * high) / 2, shift = Math.max(0, -down), rest = Math.max(0, down);
        const size = narrow ? 'font-size:10.5px' : null;
        const row = (x, at, path, values, on) => [0, 1, 2].map((k) => [
            svg('rect', {x: x + k * cell + 1, y: at + 1, width: cell - 2, height: high - 6, rx: 3,
                style: `fill:${tint(values[k] / 2.9, on ? 60 : 25)}`}),
            mark(svg('text', {x: x + k * cell + cell / 2, y: at + high / 2 + 2, 'text-anchor': 'middle', style: size}),
                answer, `${path}.${k}`)]);
        return svg('svg', {width, height: top + count * high + 8, viewBox: `0 0 ${width} ${top + count * high + 8}`,
            role: 'group', 'aria-label': say('b.picture')},
            svg('text', {class: 'label', x: table, y: 16}, say('b.table_label')),
            mark(svg('text', {class: 'label', x: table + 3 * cell, y: 16, 'text-anchor': 'end'}), answer, 'table_shape'),
            svg('text', {class: 'label', x: result, y: 16}, say('b.result_label')),
            mark(svg('text', {class: 'label', x: width, y: 16, 'text-anchor': 'end'}), answer, 'rows_shape'),
            answer.ids.map((id, i) => svg('path', {class: 'path', fill: 'none', stroke: 'var(--accent)', 'stroke-width': 1.6,
                d: `M${table + 3 * cell + 2} ${middle(id) + shift} C${result - 18} ${middle(id) + shift}, ${table + 3 * cell + 18} ${middle(i) + rest}, ${result - 2} ${middle(i) + rest}`})),
            answer.table.map((figures, id) => {
                const on = answer.ids.includes(id), at = y(id) + shift;
                return svg('g', {role: 'button', tabindex: '0', 'data-row': id, 'aria-pressed': String(on),
                    'aria-label': say('b.row') + ' ' + id, onclick: () => toggle(id), onkeydown: (event) => {
                        if (event.key === 'Enter' || event.key === ' ') {
                            event.preventDefault();
                            toggle(id);
                        }
                    }},
                    svg('rect', {class: 'ring', x: 1, y: at, width: table + 3 * cell, height: high - 4, rx: 5,
                        fill: 'transparent', stroke: on ? 'var(--accent)' : 'transparent', 'stroke-width': 1.6}),
                    svg('text', {x: narrow ? 7 : 10, y: at + high / 2 + 2, style: on ? 'font-weight:700' : null},
                        narrow ? String(id) : say('b.row') + ' ' + id),
                    row(table, at, `table.${id}`, answer.values[id], on));
            }),
            answer.ids.map((id, i) => row(result, y(i) + rest, `rows.${i}`, answer.values[id], true)));
    }
};
