-- How far visitors come: of all sessions, how many reach each step.
CREATE MATERIALIZED VIEW funnel AS
SELECT step.place, step.name, count_if(depth >= step.place) AS sessions
FROM sessions
LATERAL VIEW inline(array(
  struct(0 AS place, 'came' AS name), struct(1, 'product'), struct(2, 'cart'), struct(3, 'checkout'), struct(4, 'thanks')
)) AS step
GROUP BY step.place, step.name
ORDER BY step.place;

-- What is looked at most, of all that sessions looked at.
CREATE MATERIALIZED VIEW top_pages AS
SELECT page, count(*) AS views, count(DISTINCT visitor) AS visitors
FROM (SELECT visitor, explode(pages) AS page FROM sessions)
GROUP BY page
ORDER BY views DESC, page
LIMIT 20;
