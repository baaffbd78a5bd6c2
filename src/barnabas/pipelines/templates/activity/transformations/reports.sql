-- How far visitors come: of all sessions, how many reach each step.
CREATE MATERIALIZED VIEW funnel AS
SELECT place, name, count_if(depth >= place) AS sessions
FROM sessions
CROSS JOIN VALUES (0, 'came'), (1, 'product'), (2, 'cart'), (3, 'checkout'), (4, 'thanks') AS step (place, name)
GROUP BY place, name;

-- What is looked at most, of all that sessions looked at.
CREATE MATERIALIZED VIEW top_pages AS
SELECT page, count(*) AS views, count(DISTINCT visitor) AS visitors
FROM (SELECT visitor, explode(pages) AS page FROM sessions)
GROUP BY page
ORDER BY views DESC, page
LIMIT 20;
